"""Heirlooms: the best configurations of another run, kept beside the store of one that uses them.

A run that starts from another one (`--from RUN`) takes over its elites for the problems that both
share. What it learns of the others, of the same family or at other sizes, are the configurations
that won: programs with the same parameters start from them. They are read once, when the run is
planned, and written to `RUN/relatives.json`, so that it goes on, or is replayed, without that
other run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from archives.candidate import Language
from archives.configuration import Configuration, read_configuration
from archives.store import Store
from evokernel.founders import ranked_elites
from evokernel.likeness import Form
from problems.errors import StoreError
from problems.problem import Problem

__all__ = ["HEIRLOOMS_FILE", "Heirloom", "gather_heirlooms", "read_heirlooms", "write_heirlooms"]

HEIRLOOMS_FILE = "relatives.json"

_PER_PARAMETERS = 2
"""Configurations of each problem for one set of parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heirloom:
    """What was best for one problem of another run.

    Attributes:
        problem: Label of the problem.
        family: Its family.
        form: What it computes; None where that is not known.
        configurations: The best of each set of parameters, the best first.
    """

    problem: str
    family: str
    form: Form | None
    configurations: tuple[Configuration, ...]


class _FormRow(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    operations: list[str]
    sizes: list[float]

    def read(self) -> Form:
        """Return the form."""
        return Form(tuple(self.operations), tuple(self.sizes))


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    problem: str
    family: str
    form: _FormRow | None
    configurations: list[dict[str, bool | int | float | str]]


_ROWS = TypeAdapter(list[_Row])


def gather_heirlooms(run: str | None, problems: Sequence[Problem]) -> tuple[Heirloom, ...]:
    """Read what a run found best, for the families of some problems.

    Args:
        run: Folder of the run; None: there is none.
        problems: Those that are to be searched.

    Raises:
        StoreError: There is no such run.
    """
    if run is None:
        return ()
    families = {problem.family for problem in problems}
    with Store.open(Path(run)) as store:
        found = [_heirloom(store, p) for p in store.problems() if p.family in families]
    return tuple(one for one in found if one.configurations)


def write_heirlooms(folder: Path, heirlooms: Sequence[Heirloom]) -> None:
    """Keep heirlooms in a run's folder, in one step; nothing is written where there are none.

    Raises:
        StoreError: The file cannot be written.
    """
    if not heirlooms:
        return
    path = folder / HEIRLOOMS_FILE
    partial = path.with_suffix(".partial")
    try:
        partial.write_text(json.dumps([asdict(one) for one in heirlooms]), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise StoreError(f"the file {path} cannot be written: {error.strerror}") from error


def read_heirlooms(folder: Path) -> tuple[Heirloom, ...]:
    """Return the heirlooms that a run's folder keeps; empty where there are none.

    Raises:
        StoreError: The file is damaged.
    """
    path = folder / HEIRLOOMS_FILE
    try:
        rows = _ROWS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError) as error:
        raise StoreError(
            f"the file {path} with configurations of another run is damaged: remove it, and the "
            "run goes on without them"
        ) from error
    return tuple(
        Heirloom(
            problem=row.problem,
            family=row.family,
            form=None if row.form is None else row.form.read(),
            configurations=tuple(row.configurations),
        )
        for row in rows
    )


def _heirloom(store: Store, problem: Problem) -> Heirloom:
    """The configurations of a problem's elites, those with a kernel of their own."""
    kept: dict[frozenset[str], list[Configuration]] = {}
    for candidate in ranked_elites(store, problem.key):
        point = read_configuration(candidate.source)
        group = kept.setdefault(frozenset(point), [])
        is_own = candidate.language is not Language.TORCH
        if point and is_own and point not in group and len(group) < _PER_PARAMETERS:
            group.append(point)
    graph = store.graph(problem.key)
    return Heirloom(
        problem=problem.label,
        family=problem.family,
        form=None if graph is None else Form.of(graph),
        configurations=tuple(point for group in kept.values() for point in group),
    )
