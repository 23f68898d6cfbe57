"""Check sets of a problem on a GPU: drawn, computed in two precisions, and compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from evaluator.wire import encode_value
from evaluator.worker.cuda.comparison import Deviation, finite_mean, measure, ties_of
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.sealed import piece_of
from evaluator.worker.cuda.timed_sets import dense
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.variants import vary_set, varying

__all__ = ["CheckSets", "tensors_in"]


@dataclass(slots=True, kw_only=True)
class _CheckSet:
    """One input set with what it should give.

    Attributes:
        inputs: Its values.
        exact: The outputs in float64; integers as they are.
        own: The outputs in the problem's own precision.
        known: How far `own` is from `exact`.
    """

    inputs: list[object]
    exact: list[torch.Tensor] = field(default_factory=list)
    own: list[torch.Tensor] = field(default_factory=list)
    known: list[Deviation] = field(default_factory=list)


class CheckSets:
    """The check sets of the open problem, by number.

    Args:
        driver: The device.
        opened: The problem.
        pointers: Outputs that are indices into an input: its number, and the dimension.
    """

    def __init__(
        self, driver: Driver, opened: OpenedProblem, pointers: Mapping[int, tuple[int, int]]
    ) -> None:
        self._driver = driver
        self._opened = opened
        self._pointers = pointers
        self._sets: dict[int, _CheckSet] = {}

    def draw(self, number: int, seed: int, variant: str, *, runs: bool) -> bool:
        """Draw a set, maybe with runs of outliers; tell whether the variant changed any input."""
        # The set that was there before makes room first.
        self._sets.pop(number, None)
        opened = self._opened
        values = opened.sample(seed)
        generator = varying(seed, opened.device)
        varied, applied = vary_set(values, opened.domains, variant, generator, runs=runs)
        self._sets[number] = _CheckSet(inputs=[dense(value) for value in varied])
        return applied

    def expect(self, number: int) -> dict[str, Any]:
        """Compute what a set should give; return the fields of the reply."""
        opened = self._opened
        one = self._sets[number]
        one.own = tensors_in(opened.forward(one.inputs))
        widened = self._in_float64(one.inputs)
        exact = None if widened is None else tensors_in(widened)
        # Integers are as they are; a model that cannot run in float64 is its own measure.
        one.exact = [
            (own if not own.is_floating_point() else wide.double()).contiguous()
            for own, wide in zip(one.own, exact or one.own, strict=True)
        ]
        one.known = [measure(own, wide, own) for own, wide in zip(one.own, one.exact, strict=True)]
        del exact, widened
        self._driver.trim()
        return {
            "float64": not opened.exact_fails,
            "deviations": [known.to_json() for known in one.known],
            "means": [encode_value(finite_mean(exact)) for exact in one.exact],
        }

    def nulls(
        self,
        number: int,
        constants: Sequence[Sequence[tuple[int, float]]],
        enough: Sequence[float],
    ) -> list[dict[str, object]]:
        """Measure what would come close on a set without computing anything.

        Args:
            number: Of the set.
            constants: For each output, numbered values that might do in place of its elements.
            enough: For each output the rms error beyond which nothing passes.
        """
        one = self._sets[number]
        found = []
        for output, (values, limit) in enumerate(zip(constants, enough, strict=True)):
            own = one.own[output]
            null: dict[str, object] = {}
            for name, value in (("zeros", 0.0), *((f"constant{n}", c) for n, c in values)):
                got = torch.full((), value, device=own.device).to(own.dtype)
                null[name] = self._deviation(one, output, got, limit).to_json()
            for at, given in enumerate(one.inputs):
                if isinstance(given, torch.Tensor) and _alike(given, own):
                    null[f"input{at}"] = self._deviation(one, output, given, limit).to_json()
            found.append(null)
        return found

    def inputs(self, number: int) -> list[object]:
        """Return the inputs of a set."""
        return self._sets[number].inputs

    def deviations(self, number: int, outputs: Sequence[torch.Tensor]) -> list[object]:
        """Measure a candidate's outputs on a set."""
        one = self._sets[number]
        return [self._deviation(one, output, got).to_json() for output, got in enumerate(outputs)]

    def deviations_from(
        self,
        owns: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[object],
        at: float | None,
    ) -> list[object]:
        """Measure outputs against the reference's in its own precision.

        Args:
            owns: The reference's outputs.
            outputs: A candidate's, or pieces of them.
            inputs: What both were computed from.
            at: Where the pieces were taken, as `piece_of` has it; None: the outputs are whole.
        """
        found = []
        for output, (got, own) in enumerate(zip(outputs, owns, strict=True)):
            tied = self.ties(own, output, inputs)
            expected = own if at is None or got.shape == own.shape else piece_of(own, at)
            found.append(measure(got, expected, expected, tied=tied).to_json())
        return found

    def ties(self, exact: torch.Tensor, output: int, inputs: Sequence[object]) -> Any:  # noqa: ANN401
        """Tell which other indices are as good, where an output is an index; else None."""
        if output not in self._pointers:
            return None
        number, dimension = self._pointers[output]
        source = inputs[number]
        assert isinstance(source, torch.Tensor)
        return ties_of(exact, source, dimension)

    def clear(self) -> None:
        """Free all sets."""
        self._sets.clear()

    def _in_float64(self, inputs: Sequence[object]) -> object | None:
        """Call the model in float64; None where it does not run, or never fits.

        Raises:
            torch.OutOfMemoryError: It does not fit beside what others have now.
        """
        try:
            return self._opened.in_float64(inputs)
        except torch.OutOfMemoryError:
            if self._driver.crowded:
                raise
            self._opened.exact_fails = True
            return None

    def _deviation(
        self, one: _CheckSet, output: int, got: torch.Tensor, enough: float = math.inf
    ) -> Deviation:
        exact, own = one.exact[output], one.own[output]
        tied = self.ties(exact, output, one.inputs)
        return measure(got, exact, own, known=one.known[output], tied=tied, enough=enough)


def tensors_in(outputs: object) -> list[torch.Tensor]:
    """Return the tensors that a model returned, row-major."""
    items = outputs if isinstance(outputs, tuple | list) else [outputs]
    return [item.contiguous() for item in items if isinstance(item, torch.Tensor)]


def _alike(value: torch.Tensor, own: torch.Tensor) -> bool:
    return value.shape == own.shape and value.dtype == own.dtype
