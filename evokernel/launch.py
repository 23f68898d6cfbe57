"""From a configuration to a run that is under way: problems, seeds, operators, store, evaluator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from archives.descriptors import axes_named
from archives.records import ProblemState, ProblemStatus, RunRecord, RunState
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.config import ProblemsConfig, RunConfig, adjust
from evokernel.devices import DEVICE_WORDS, default_scale, device_kind
from evokernel.engine import Ending, Engine
from evokernel.founders import Kernels, gather_founders
from evokernel.tasks import cancel_all
from operators.operator import Operator
from operators.registry import load_operator
from operators.settings import check_settings
from problems.catalogue import load_level, parse_ids
from problems.errors import ConfigError
from problems.loaders import load_file, load_folder
from problems.problem import Problem, Scale

__all__ = ["Plan", "create_run", "default_folder", "load_operators", "make_plan", "reopen", "sit"]

_BYTES_PER_ATTEMPT = 16_384
"""Rows of one attempt, at most: twice a source of 6 KB, and 4 KB."""

Display = Callable[[Engine], Awaitable[None]]
"""Shows a running engine to people until it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is going to do.

    Attributes:
        config: Its configuration.
        problems: In order.
        operators: By name.
        device: Kind of device that is measured on: "cpu" or "cuda".
        seeds: Kernels that a new run is given to start from; the store has those of an old one.
        complaints: One sentence for each file that is left out.
    """

    config: RunConfig
    problems: tuple[Problem, ...]
    operators: Mapping[str, Operator]
    device: str
    seeds: Kernels = field(default_factory=dict)
    complaints: tuple[str, ...] = ()

    @property
    def device_words(self) -> str:
        """The kind of device for people."""
        return DEVICE_WORDS[self.device]

    @property
    def scale(self) -> str:
        """Scale of the problems."""
        return self.problems[0].scale.value

    @property
    def num_attempts(self) -> int:
        """Proposals at most, those without a program not counted."""
        search = self.config.search
        later = search.generations * search.proposals
        kernels = sum(len(kernels) for kernels in self.seeds.values())
        return kernels + len(self.problems) * (1 + search.islands * (search.initial + later))

    @property
    def num_evaluations(self) -> int:
        """Search evaluations at most."""
        limit = self.config.budget.max_evaluations
        return self.num_attempts if limit is None else min(limit, self.num_attempts)

    @property
    def num_bytes(self) -> int:
        """Bytes that the store will take at most."""
        return self.num_attempts * _BYTES_PER_ATTEMPT


def make_plan(config: RunConfig) -> Plan:
    """Load what a configuration names; starts nothing and writes nothing.

    Raises:
        ConfigError: The configuration names no problem, or something that does not exist.
        ProblemError: No problem can be loaded.
        OperatorError: An operator cannot be loaded, or there is no folder of seeds.
        StoreError: There is no such run to start from.
    """
    device = device_kind(config.problems.device)
    axes_named(config.archive.axes)
    operators = load_operators(config)
    problems, complaints = _load_problems(config.problems, device)
    seeds, more = gather_founders(config.problems, problems)
    return Plan(
        config=config,
        problems=problems,
        operators=operators,
        device=device,
        seeds=seeds,
        complaints=(*complaints, *more),
    )


def load_operators(config: RunConfig) -> dict[str, Operator]:
    """Return the operators of a configuration by name; "seed" is always one of them.

    Raises:
        OperatorError: There is no such operator.
        ConfigError: Settings are given for an operator that is not used or does not have them,
            or are out of range.
    """
    loaded = [load_operator(name) for name in dict.fromkeys(("seed", *config.operators.use))]
    operators = {operator.name: operator for operator in loaded}
    for name, given in config.operators.settings.items():
        if name not in operators:
            near = get_close_matches(name, operators, 1, 0.5)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"operators.settings.{name}: no operator of that name is used, they are "
                f"{', '.join(operators)}{hint}"
            )
        check_settings(operators[name], name, given)
    return operators


def default_folder(now: datetime) -> Path:
    """Return a folder for a run that was given none, named after the time."""
    stem = Path("runs") / now.strftime("%Y%m%d-%H%M%S")
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def create_run(plan: Plan, folder: Path) -> Store:
    """Make a run's folder and store, with its problems, kernels and configuration in it.

    Raises:
        StoreError: The folder holds a run already, or cannot be written.
    """
    record = RunRecord(
        name=folder.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        config_json=plan.config.model_dump_json(),
        rng_seed=plan.config.rng_seed,
        scale=plan.scale,
    )
    return Store.create(folder, record, problems=plan.problems, seeds=plan.seeds)


def reopen(folder: Path, changes: Mapping[str, object] | None = None) -> tuple[Store, Plan]:
    """Open a run in order to go on with it; what it needs comes from its store alone.

    Args:
        folder: The run's folder.
        changes: New values by dotted name, such as "budget.max_minutes"; they are stored. None
            stands for one that stays as it is.

    Raises:
        StoreError: There is no such run, or another engine holds it.
        ConfigError: Its configuration is one of another version of EvoKernel, or a new value is
            out of range.
    """
    store = Store.open(folder, write=True)
    try:
        try:
            config = RunConfig.model_validate_json(store.run().config_json)
        except ValueError as error:
            raise ConfigError(
                f"the configuration stored in {folder} does not fit this version of EvoKernel: "
                "resume the run with the version that started it"
            ) from error
        adjusted = adjust(config, changes or {})
        plan = Plan(
            config=adjusted,
            problems=tuple(store.problems()),
            operators=load_operators(adjusted),
            device=device_kind(adjusted.problems.device),
        )
        if adjusted != config:
            store.set_config(adjusted.model_dump_json())
    except BaseException:
        store.close()
        raise
    return store, plan


def sit(
    store: Store, plan: Plan, *, evaluator: Evaluator | None = None, display: Display | None = None
) -> Ending:
    """Run, or go on with, a run until it ends or is interrupted.

    Args:
        store: Open for writing.
        plan: What the run is.
        evaluator: Whoever measures; None: the pool of this machine.
        display: Shows the engine meanwhile.

    Raises:
        KeyboardInterrupt: Ctrl-C; what was recorded stays and can be resumed.
        EvaluatorError: The evaluator does not start, or fails again and again.
        StoreError: The store cannot be written any more.
    """
    if _is_complete(store, plan.config):
        return Ending.of(store, RunState.FINISHED)
    engine = Engine(
        store=store,
        config=plan.config,
        evaluator=evaluator or _pool(plan.config),
        operators=plan.operators,
    )
    return asyncio.run(_sit(engine, display))


async def _sit(engine: Engine, display: Display | None) -> Ending:
    shown = [asyncio.ensure_future(display(engine))] if display else []
    try:
        return await engine.run()
    finally:
        await cancel_all(shown)


def _is_complete(store: Store, config: RunConfig) -> bool:
    """Tell whether a run is finished, and neither kernels nor more generations wait."""
    if store.run().state is not RunState.FINISHED:
        return False
    waiting = {seed.problem for seed in store.waiting_seeds()}
    states = store.problem_states()
    searchable = [state for state in states if state.status is not ProblemStatus.SKIPPED]
    return not any(
        state.key in waiting
        or (state.status is ProblemStatus.OPEN and _reached(state) < config.search.generations)
        for state in searchable
    )


def _reached(state: ProblemState) -> int:
    return -1 if state.generation is None else state.generation


def _pool(config: RunConfig) -> Evaluator:
    from evaluator.pool import Pool

    return Pool(num_actors=config.evaluation.actors, address=config.evaluation.ray_address)


def _load_problems(
    config: ProblemsConfig, device: str
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """The problems, and one sentence for each file that is none."""
    if config.file is not None:
        if config.level is not None or config.source is not None or config.ids:
            raise ConfigError(
                "--problem-file is a run of its own: leave --level, --problems and --source out"
            )
        if config.scale is not None:
            raise ConfigError(
                "--scale is for bundled problems: a problem file states its own sizes"
            )
        return (load_file(Path(config.file)),), ()
    if config.level is None:
        raise ConfigError("nothing to run: name a level with --level 1, or --problem-file FILE")
    ids = parse_ids(config.ids) if config.ids else None
    if config.source is None:
        scale = Scale(config.scale) if config.scale else default_scale(device)
        return load_level(config.level, scale, ids), ()
    if config.scale is not None:
        raise ConfigError("--scale is for bundled problems: the files of --source state their own")
    problems, errors = load_folder(Path(config.source), config.level, ids)
    if not problems:
        raise errors[0]
    return tuple(problems), tuple(str(error) for error in errors)
