"""Running sketches: write, build, load and hold against the reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from archives.configuration import read_configuration, read_space, with_configuration
from operators.sketches.sketch import Sketch
from problems.problem import DomainKind, Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem

SketchChecker = Callable[..., int]


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kernels of the session are built, so that equal ones are built once."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def check_sketch(build_folder: Path, monkeypatch: pytest.MonkeyPatch) -> SketchChecker:
    """Return a function that builds a sketch's program and checks it.

    The function takes the sketch, the problem and changes to the default configuration (none: the
    default itself), and returns how many configurations were checked. With `each`, the first and
    the last value of every parameter are tried too, the others being as in the first of these.
    """
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(build_folder))

    def check(
        sketch: Sketch, problem: Problem, *changes: Mapping[str, Any], each: bool = False
    ) -> int:
        source = sketch.write(problem, trace(problem.source))
        assert source is not None, f"{sketch.name} does not know {problem.label}"
        default = read_configuration(source)
        space = read_space(source)
        assert all(default[name] in values for name, values in space.items())
        configurations = [{**default, **change} for change in changes or ({},)]
        if each:
            base = configurations[0]
            configurations += [
                {**base, name: value}
                for name, values in space.items()
                for value in dict.fromkeys((values[0], values[-1]))
                if value != base[name]
            ]
        for configuration in configurations:
            _check_program(with_configuration(source, configuration), problem, configuration)
        return len(configurations)

    return check


@pytest.fixture
def make_problem() -> Callable[..., Problem]:
    """Return a function that makes a problem of a forward expression over inputs."""

    def make(forward: str, shapes: Mapping[str, tuple[int, ...]], build: str = "pass") -> Problem:
        drawn = {name: f"torch.rand({shape})" for name, shape in shapes.items()}
        return made_problem(forward, drawn, build)

    return make


def _check_program(source: str, problem: Problem, configuration: Mapping[str, Any]) -> None:
    reference, program = _load(problem.source), _load(source)
    torch.manual_seed(0)
    init = reference["get_init_inputs"]()
    model, candidate = reference["Model"](*init), program["ModelNew"](*init)
    assert list(model.state_dict()) == list(candidate.state_dict())
    candidate.load_state_dict(model.state_dict())
    exact = reference["Model"](*init)
    exact.load_state_dict(model.state_dict())
    exact.double()
    drawn = reference["get_inputs"]()
    for factor, offset in ((1.0, 0.0), (30.0, 0.0), (0.01, 0.0), (-1.0, 0.0), (2.0, -0.5)):
        inputs = [_varied(problem, i, value, factor, offset) for i, value in enumerate(drawn)]
        kept = [value.clone() for value in inputs]
        with torch.no_grad():
            got = candidate(*inputs)
            plain = model(*inputs)
            wide = exact(*(v.double() if v.is_floating_point() else v for v in inputs))
        assert all(torch.equal(a, b) for a, b in zip(inputs, kept, strict=True))
        assert (got.shape, got.dtype, got.stride()) == (plain.shape, plain.dtype, plain.stride())
        _check_close(got, plain, wide, f"{problem.label} {configuration} x{factor}+{offset}")


def _check_close(got: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor, where: str) -> None:
    """The bound is 16 times torch's own error, or 8 roundings of the output's RMS."""
    finite = torch.isfinite(plain)
    assert torch.equal(finite, torch.isfinite(got)), where
    assert torch.equal(torch.isnan(plain), torch.isnan(got)), where
    scale = exact[finite].pow(2).mean().sqrt().item()
    own = (plain.double() - exact)[finite].abs().max().item()
    error = (got.double() - exact)[finite].abs().max().item()
    assert error <= max(16 * own, 8 * 2**-24 * scale), where


def _varied(
    problem: Problem, index: int, value: torch.Tensor, factor: float, offset: float
) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    kinds = [domain.kind for domain in problem.domains]
    kind = kinds[index] if kinds else DomainKind.REAL
    if kind is DomainKind.REAL:
        return value * factor + offset * factor
    return value * factor


def _load(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "loaded"}
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace
