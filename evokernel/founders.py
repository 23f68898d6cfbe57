"""Founders: kernels that a run starts from, besides the reference and the sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from archives.candidate import Candidate, Language
from archives.store import Store
from evokernel.config import ProblemsConfig
from operators.seeds import load_seeds
from problems.errors import ConfigError
from problems.problem import Problem

__all__ = ["Kernels", "gather_founders", "ranked_elites"]

Kernels = Mapping[str, Sequence[tuple[str, str]]]
"""(name, source) pairs by problem key."""


def gather_founders(
    config: ProblemsConfig, problems: Sequence[Problem], *, inherits: bool = False
) -> tuple[Kernels, tuple[str, ...]]:
    """Read the kernels of `--seeds` and of `--from`, in this order, each once.

    Args:
        config: Names the folder and the run.
        problems: The problems of the run that is planned.
        inherits: Whether the run of `--from` is of use without a problem in common too.

    Returns:
        The kernels, and one sentence for each file or run that brings none.

    Raises:
        OperatorError: There is no such folder of seeds.
        StoreError: There is no such run.
        ConfigError: That run shares no problem with this one and is of no other use.
    """
    found: list[Kernels] = []
    complaints: list[str] = []
    if config.seeds is not None:
        folder = load_seeds(Path(config.seeds), problems)
        found.append(folder.kernels)
        complaints += folder.complaints
    if config.from_run is not None:
        elites = _elites_of(Path(config.from_run), problems, inherits=inherits)
        found.append(elites)
        if not elites:
            complaints.append(
                f"the run {config.from_run} has no elite with a kernel of its own for the "
                "problems of this run"
            )
    kernels = {
        problem.key: _distinct(
            problem.key, [k for part in found for k in part.get(problem.key, ())]
        )
        for problem in problems
    }
    return {key: some for key, some in kernels.items() if some}, tuple(complaints)


def _elites_of(
    folder: Path, problems: Sequence[Problem], *, inherits: bool
) -> dict[str, list[tuple[str, str]]]:
    """The elites with own kernels of the problems that a run shares with this one."""
    with Store.open(folder) as store:
        shared = {problem.key for problem in store.problems()} & {p.key for p in problems}
        if not shared and not inherits:
            raise ConfigError(
                f"--from {folder}: it shares no problem with this run, expected the same problems "
                f"at the same sizes; its scale is {store.run().scale}. What it found on problems "
                "of the same families is of use only to an evolution whose operators transfer"
            )
        elites = {key: _ranked(store, key) for key in sorted(shared)}
    return {key: kernels for key, kernels in elites.items() if kernels}


def ranked_elites(store: Store, problem_key: str) -> list[Candidate]:
    """Return the elites of a problem, the best by the objective first.

    Those that failed their latest verification are left out.
    """
    found = store.elite_evaluations(problem_key)
    ranked = sorted(found, key=lambda each: (-(found[each].objective_speedup or 0.0), each))
    return [store.candidate(candidate, problem_key) for candidate in ranked]


def _ranked(store: Store, problem_key: str) -> list[tuple[str, str]]:
    """(name, source) of each elite with a kernel of its own, the best first."""
    candidates = ranked_elites(store, problem_key)
    return [
        (f"{store.run().name} {candidate.id[:12]}", candidate.source)
        for candidate in candidates
        if candidate.language is not Language.TORCH
    ]


def _distinct(problem_key: str, kernels: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The kernels without those that are an earlier one again."""
    first: dict[str, tuple[str, str]] = {}
    for name, source in kernels:
        first.setdefault(Candidate.of(problem_key, source).id, (name, source))
    return tuple(first.values())
