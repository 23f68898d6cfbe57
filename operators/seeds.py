"""The operator "seed", and human kernels read from a folder.

A seed has no parents: the reference itself, renamed to `ModelNew` and so a kept fallback, and
human kernels matched to problems by level and id or by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from archives.candidate import Candidate
from operators.operator import OperatorContext, Parent, Proposal
from operators.parts import rename_class
from operators.settings import Setting
from problems.errors import OperatorError
from problems.problem import Problem

__all__ = [
    "SEED",
    "Seed",
    "SeedFolder",
    "check_kernel",
    "load_seeds",
    "reference_as_candidate",
]

REFERENCE_NAME = "reference"

_SAMPLE = re.compile(r"level_(\d+)_problem_(\d+)(?:_|$)")
_NUMBERED = re.compile(r"(\d+)_")
_LEVEL_FOLDER = re.compile(r"level_?(\d+)$")


class Seed:
    """Proposes the reference as its own candidate, then each human kernel."""

    name = "seed"
    num_parents = (0, 0)
    from_failures = False
    settings: tuple[Setting, ...] = ()

    def applies(self, context: OperatorContext) -> bool:
        """Return True: there is always the reference."""
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose the first seed that is not known yet; the reference comes first.

        Reasons: "seeds_exhausted" where all are known.
        """
        key = context.problem.key
        kernels = [(REFERENCE_NAME, reference_as_candidate(context.problem)), *context.seeds]
        for name, source in kernels:
            if Candidate.of(key, source).id not in context.known:
                return Proposal(source=source, note=name)
        return Proposal(source=None, reason="seeds_exhausted")


SEED = Seed()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedFolder:
    """What a folder of human kernels holds for a set of problems.

    Attributes:
        kernels: (name, source) pairs by problem key, in file order.
        complaints: One sentence for each file that could not be used.
    """

    kernels: Mapping[str, tuple[tuple[str, str], ...]]
    complaints: tuple[str, ...] = ()


def reference_as_candidate(problem: Problem) -> str:
    """Return the reference's text with its class named `ModelNew`.

    Every mention of the name `Model` in the code is renamed; comments, strings and layout stay
    (line ends are unified).

    Raises:
        OperatorError: The problem's source does not parse.
    """
    try:
        return rename_class(problem.source, "Model", "ModelNew")
    except (SyntaxError, ValueError) as error:
        raise OperatorError(
            f"the source of problem {problem.label} does not parse ({error}): it cannot be a seed"
        ) from error


def check_kernel(path: Path) -> str:
    """Return the text of a human kernel's file.

    Raises:
        OperatorError: The file cannot be read, does not parse, or defines no class `ModelNew`
            with a method `forward`.
    """
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
    except OSError as error:
        raise OperatorError(f"the kernel file {path} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        raise OperatorError(
            f"the kernel file {path} is not a Python module: {_where(error)}"
        ) from error
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            if any(isinstance(m, ast.FunctionDef) and m.name == "forward" for m in node.body):
                return source
            raise OperatorError(
                f"the kernel file {path} defines ModelNew without a method forward: add one with "
                "the signature of the reference's"
            )
    raise OperatorError(
        f"the kernel file {path} defines no class ModelNew: name the kernel's module ModelNew, "
        "with the constructor and forward of the reference's Model"
    )


def load_seeds(folder: Path, problems: Sequence[Problem]) -> SeedFolder:
    """Read the human kernels of a folder.

    A file belongs to a problem by level and id (`level1/23_Softmax.py`,
    `level_1_problem_23_sample_0_kernel.py`; without a level in its name, `23_Softmax.py`, where
    all problems are of one level) or by name (`Softmax.py`, `softmax_two_pass.py`).

    Args:
        folder: Searched with its subfolders for `*.py`, in sorted order.
        problems: The problems of the run.

    Returns:
        The kernels, and a sentence for each file that matches none or is broken.

    Raises:
        OperatorError: There is no such folder.
    """
    if not folder.is_dir():
        raise OperatorError(
            f"there is no folder {folder}: --seeds expects a folder of kernel files"
        )
    kernels: dict[str, tuple[tuple[str, str], ...]] = {}
    complaints = []
    for path in sorted(folder.rglob("*.py")):
        problem = _match(path.relative_to(folder), problems)
        if problem is None:
            complaints.append(
                f"the kernel file {path} belongs to no problem of this run: name it by level and "
                "id, such as level1/23_Softmax.py, or by the problem's name"
            )
            continue
        try:
            kernel = (path.stem, check_kernel(path))
        except OperatorError as error:
            complaints.append(str(error))
            continue
        kernels[problem.key] = (*kernels.get(problem.key, ()), kernel)
    return SeedFolder(kernels=kernels, complaints=tuple(complaints))


def _match(path: Path, problems: Sequence[Problem]) -> Problem | None:
    place = _place(path, {problem.level for problem in problems})
    if place is not None:
        found = [p for p in problems if (p.level, p.id) == place]
        return found[0] if found else None
    stem = _NUMBERED.sub("", path.stem, count=1) if _NUMBERED.match(path.stem) else path.stem
    words = _words(stem)
    starts = {"".join(words[:count]) for count in range(1, len(words) + 1)}
    found = [problem for problem in problems if "".join(_words(problem.name)) in starts]
    return max(found, key=lambda problem: len(problem.name), default=None)


def _place(path: Path, levels: set[int]) -> tuple[int, int] | None:
    """The level and id that a path states, or None."""
    sample = _SAMPLE.match(path.stem)
    if sample:
        return int(sample[1]), int(sample[2])
    numbered = _NUMBERED.match(path.stem)
    if numbered is None:
        return None
    folder = _LEVEL_FOLDER.match(path.parent.name)
    if folder:
        return int(folder[1]), int(numbered[1])
    return (next(iter(levels)), int(numbered[1])) if len(levels) == 1 else None


def _words(name: str) -> list[str]:
    """The words of a name; joined, they are the same however the name is written."""
    return re.findall(r"[a-z0-9]+", name.lower())


def _where(error: SyntaxError | ValueError) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{error.msg} (line {error.lineno})"
    return str(error)
