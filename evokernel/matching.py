"""Matched speedups: what the referee measured, held against torch's other settings.

The referee measures a candidate against eager torch at its defaults. On a GPU other settings of
torch are faster or more accurate; how much is in a baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from archives.evaluation import DeviceFingerprint, Evaluation, Status
from evokernel.baseline_file import load_baseline, save_baseline
from evokernel.baseline_shelf import baseline_for
from evokernel.baselines import Baseline, check_device, matched_speedup, strictest_ratio
from problems.problem import Problem

__all__ = ["BASELINE_FILE", "ChooseBaseline", "Matching", "kept_baseline", "settle_baseline"]

BASELINE_FILE = "baseline.json"
"""Of a run's folder: the baseline that its matched speedups come from."""

ChooseBaseline = Callable[[DeviceFingerprint], Baseline | None]
"""Returns what torch reached on a device, as far as a run goes; None: it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Completes verdicts.

    Attributes:
        baseline: What torch reached on the device; None: not known.
    """

    baseline: Baseline | None = None

    def complete(self, problem: Problem, evaluation: Evaluation) -> Evaluation:
        """Return a verdict with its matched speedup, where that can be told and was not."""
        if self.baseline is None or evaluation.matched_speedup is not None:
            return evaluation
        known = self.baseline.of(problem)
        if known is None or evaluation.status is not Status.OK or evaluation.speedup is None:
            return evaluation
        matched = matched_speedup(evaluation.speedup, evaluation.error, known.settings)
        return replace(evaluation, matched_speedup=matched)

    def share(self, problem: Problem, evaluation: Evaluation) -> float | None:
        """Return the share that a verdict has of the best objective that the device permits.

        The ceiling is a time, whatever the accuracy. A matched speedup is the largest where a
        kernel at the ceiling is as accurate as torch's most accurate setting: one that meets a
        faster, less accurate setting still leaves something to climb, also where it is at the
        ceiling itself.

        Returns:
            From 0 to 1; None where the ceiling is not known.
        """
        share, speedup = evaluation.roofline_share, evaluation.speedup
        known = None if self.baseline is None else self.baseline.of(problem)
        most = None if known is None else strictest_ratio(known.settings)
        if share is None or speedup is None or most is None:
            return share
        return share * (evaluation.objective_speedup or 0.0) / (speedup * most)


def kept_baseline(folder: Path) -> Baseline | None:
    """Return the baseline that a run keeps; None where it has none.

    Raises:
        ConfigError: The file is damaged.
    """
    path = folder / BASELINE_FILE
    return load_baseline(path) if path.exists() else None


def settle_baseline(
    folder: Path,
    device: DeviceFingerprint,
    problems: Sequence[Problem],
    *,
    given: Path | None = None,
    look: bool = True,
) -> Baseline | None:
    """Return what torch reached where a run measures, and keep it in the run's folder.

    A run stays with the baseline that it has; a new one takes the file that was named, or else
    what was measured on such a device before or comes with EvoKernel.

    Args:
        folder: The run's.
        device: Where it measures.
        problems: Its problems; the baseline is kept as far as they go.
        given: File that was named; None: none.
        look: Whether to look for one where none was named and none is kept.

    Raises:
        ConfigError: The file cannot be read, or what was named is of another device or version.
    """
    found = kept_baseline(folder)
    if found is not None:
        return found
    if given is not None:
        found = load_baseline(given)
    elif look:
        found = baseline_for(device, problems)
    if found is None:
        return None
    check_device(found, device)
    wanted = {problem.key for problem in problems}
    kept = tuple(one for one in found.problems if one.key in wanted)
    found = replace(found, problems=kept)
    save_baseline(found, folder / BASELINE_FILE)
    return found
