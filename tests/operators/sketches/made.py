"""Problems made of an expression, for tests of sketches."""

from __future__ import annotations

from collections.abc import Mapping

from problems.problem import Problem, Scale

__all__ = ["made_problem"]


def made_problem(
    forward: str, inputs: Mapping[str, str], build: str = "", *, name: str = "made"
) -> Problem:
    """Return a problem.

    Args:
        forward: The expression that `forward` returns; where it has several lines, those before
            the last are statements.
        inputs: Expressions that draw the inputs, by the names of the arguments.
        build: Statements of the constructor, one a line; "": there is no constructor.
        name: The problem's name.
    """
    *statements, result = forward.splitlines()
    methods = {f"forward(self, {', '.join(inputs)})": [*statements, f"return {result}"]}
    if build:
        methods = {"__init__(self)": ["super().__init__()", *build.splitlines()], **methods}
    lines = ["import torch", "import torch.nn.functional as F", "from torch import nn", ""]
    lines.append("class Model(nn.Module):")
    for head, body in methods.items():
        lines += [f"    def {head}:", *(f"        {line}" for line in body), ""]
    lines += ["def get_inputs():", f"    return [{', '.join(inputs.values())}]", ""]
    lines += ["def get_init_inputs():", "    return []", ""]
    source = "\n".join(lines)
    return Problem(level=0, id=1, name=name, family="custom", scale=Scale.CUSTOM, source=source)
