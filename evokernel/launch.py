"""From a configuration to a run that is under way: problems, seeds, operators, store, evaluator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from archives.descriptors import axes_named
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.config import ProblemsConfig, RunConfig
from evokernel.engine import Ending, Engine
from evokernel.tasks import cancel_all
from operators.operator import Operator
from operators.registry import load_operator
from operators.seeds import load_seeds
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
        seeds: Human kernels by problem key: (name, source).
        operators: By name.
        complaints: One sentence for each file that is left out.
    """

    config: RunConfig
    problems: tuple[Problem, ...]
    seeds: Mapping[str, Sequence[tuple[str, str]]]
    operators: Mapping[str, Operator]
    complaints: tuple[str, ...] = ()

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
    """
    if config.problems.device == "cuda":
        raise ConfigError(
            "--device cuda: this release measures on the CPU only, GPUs follow: "
            "leave the option out, or give --device cpu"
        )
    axes_named(config.archive.axes)
    operators = load_operators(config)
    problems, complaints = _load_problems(config.problems)
    seeds, more = _load_seeds(config, problems)
    return Plan(
        config=config,
        problems=problems,
        seeds=seeds,
        operators=operators,
        complaints=(*complaints, *more),
    )


def load_operators(config: RunConfig) -> dict[str, Operator]:
    """Return the operators of a configuration by name; "seed" is always one of them.

    Raises:
        OperatorError: There is no such operator.
        ConfigError: Settings are given for an operator that is not used.
    """
    loaded = [load_operator(name) for name in dict.fromkeys(("seed", *config.operators.use))]
    operators = {operator.name: operator for operator in loaded}
    for name in config.operators.settings:
        if name not in operators:
            near = get_close_matches(name, operators, 1, 0.5)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"operators.settings.{name}: no operator of that name is used, they are "
                f"{', '.join(operators)}{hint}"
            )
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
    """Make a run's folder and store, with its problems and resolved configuration in it.

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
    store = Store.create(folder, record)
    store.add_problems(plan.problems)
    return store


def reopen(folder: Path) -> tuple[Store, Plan]:
    """Open a run in order to go on with it; its problems come from its store.

    Raises:
        StoreError: There is no such run, or another engine holds it.
        ConfigError: Its configuration is one of another version of EvoKernel.
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
        if not store.problems():  # Killed right after the folder was made.
            store.add_problems(make_plan(config).problems)
        problems = tuple(store.problems())
        seeds, complaints = _load_seeds(config, problems)
        operators = load_operators(config)
    except BaseException:
        store.close()
        raise
    plan = Plan(
        config=config,
        problems=problems,
        seeds=seeds,
        operators=operators,
        complaints=complaints,
    )
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
    engine = Engine(
        store=store,
        config=plan.config,
        evaluator=evaluator or _pool(plan.config),
        operators=plan.operators,
        seeds=plan.seeds,
    )
    return asyncio.run(_sit(engine, display))


async def _sit(engine: Engine, display: Display | None) -> Ending:
    shown = [asyncio.ensure_future(display(engine))] if display else []
    try:
        return await engine.run()
    finally:
        await cancel_all(shown)


def _pool(config: RunConfig) -> Evaluator:
    from evaluator.pool import Pool

    return Pool(num_actors=config.evaluation.actors, address=config.evaluation.ray_address)


def _load_problems(config: ProblemsConfig) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """The problems, and one sentence for each file that is none."""
    if config.file is not None:
        if config.level is not None or config.source is not None or config.ids:
            raise ConfigError(
                "--problem-file is a run of its own: leave --level, --problems and --source out"
            )
        return (load_file(Path(config.file)),), ()
    if config.level is None:
        raise ConfigError("nothing to run: name a level with --level 1, or --problem-file FILE")
    ids = parse_ids(config.ids) if config.ids else None
    if config.source is None:
        scale = Scale(config.scale or Scale.SMALL)
        return load_level(config.level, scale, ids), ()
    if config.scale is not None:
        raise ConfigError("--scale is for bundled problems: the files of --source state their own")
    problems, errors = load_folder(Path(config.source), config.level, ids)
    if not problems:
        raise errors[0]
    return tuple(problems), tuple(str(error) for error in errors)


def _load_seeds(
    config: RunConfig, problems: Sequence[Problem]
) -> tuple[Mapping[str, Sequence[tuple[str, str]]], tuple[str, ...]]:
    if config.problems.seeds is None:
        return {}, ()
    found = load_seeds(Path(config.problems.seeds), problems)
    return found.kernels, found.complaints
