"""From a configuration to a run that is under way: problems, seeds, operators, store, evaluator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from archives.descriptors import axes_named
from archives.evaluation import DeviceFingerprint
from archives.records import ProblemState, ProblemStatus, RunRecord, RunState
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.allowance import Allowance
from evokernel.baseline_file import load_baseline
from evokernel.baselines import Baseline
from evokernel.chosen_problems import chosen_problems
from evokernel.config import LlmConfig, RunConfig, adjust
from evokernel.consulting import Consulting, Models, Record
from evokernel.deadlines import deadlines_of
from evokernel.devices import DEVICE_WORDS, device_kind
from evokernel.engine import Ending, Engine
from evokernel.founders import Kernels, gather_founders
from evokernel.heirlooms import Heirloom, gather_heirlooms, write_heirlooms
from evokernel.kin import transfers
from evokernel.matching import ChooseBaseline, kept_baseline, settle_baseline
from evokernel.models import LLM_OPERATORS, ProviderModels, RecordedModels, check_models
from evokernel.tasks import cancel_all
from operators.operator import Operator
from operators.registry import load_operator
from operators.settings import check_settings
from problems.errors import ConfigError
from problems.problem import Problem

__all__ = [
    "Plan",
    "create_run",
    "default_folder",
    "load_operators",
    "make_plan",
    "reopen",
    "sit",
    "stored_config",
]

_BYTES_PER_ATTEMPT = 16_384
"""Rows of one attempt, at most: twice a source of 6 KB, and 4 KB."""
_BYTES_PER_CALL = 16_384
"""A call's texts, compressed: a prompt of 30 KB and a reply of 10 KB, or more of what repeats."""

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
        heirlooms: What another run found best, for a new run; the folder has that of an old one.
        complaints: One sentence for each file that is left out.
        notes: Sentences that people should read before it starts.
    """

    config: RunConfig
    problems: tuple[Problem, ...]
    operators: Mapping[str, Operator]
    device: str
    seeds: Kernels = field(default_factory=dict)
    heirlooms: tuple[Heirloom, ...] = ()
    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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
        """Proposals at most, those without a program and those of `founding` not counted."""
        search = self.config.search
        later = search.generations * search.proposals
        kernels = sum(len(kernels) for kernels in self.seeds.values())
        return kernels + len(self.problems) * (1 + search.islands * (search.initial + later))

    @property
    def num_evaluations(self) -> int:
        """Search evaluations at most; without a lower limit those of `founding` not counted."""
        limit = self.config.budget.max_evaluations
        if limit is None or (limit > self.num_attempts and not self.config.search.founding):
            return self.num_attempts
        return limit

    @property
    def num_bytes(self) -> int:
        """Bytes that the store will take at most, for `num_attempts`."""
        calls = self.num_attempts if self.config.llm.models else 0
        return self.num_attempts * _BYTES_PER_ATTEMPT + calls * _BYTES_PER_CALL


def make_plan(config: RunConfig, *, asks: bool = True) -> Plan:
    """Load what a configuration names; starts nothing and writes nothing.

    A Ray cluster that it names is asked whether there are GPUs.

    Args:
        config: What the run is to do.
        asks: False where no model will be asked, whose keys need not be there then.

    Raises:
        ConfigError: The configuration names no problem, something that does not exist, or a
            model that cannot be asked.
        ProblemError: No problem can be loaded.
        OperatorError: An operator cannot be loaded, or there is no folder of seeds.
        StoreError: There is no such run to start from.
        EvaluatorError: The Ray cluster that it names cannot be joined.
    """
    if config.evaluation.baseline is not None:
        load_baseline(Path(config.evaluation.baseline))
    device = device_kind(config.problems.device, config.evaluation.ray_address)
    axes_named(config.archive.axes)
    operators = load_operators(config)
    problems, complaints = chosen_problems(config.problems, device)
    heirlooms = gather_heirlooms(config.problems.from_run, problems)
    inherits = bool(heirlooms) and transfers(config, operators)
    seeds, more = gather_founders(config.problems, problems, inherits=inherits)
    notes = check_models(config.llm, Path.cwd(), asks=asks)
    return Plan(
        config=config,
        problems=problems,
        operators=operators,
        device=device,
        seeds=seeds,
        heirlooms=heirlooms,
        complaints=(*complaints, *more),
        notes=notes,
    )


def load_operators(config: RunConfig) -> dict[str, Operator]:
    """Return the operators of a configuration by name; "seed" is always one of them.

    Where models are named, those that ask them join, unless some of them are chosen already.

    Raises:
        OperatorError: There is no such operator.
        ConfigError: Settings are given for an operator that is not used or does not have them,
            or are out of range; or an operator asks models and none is named.
    """
    chosen = config.operators.use
    asking = [name for name in chosen if name in LLM_OPERATORS]
    if asking and not config.llm.models:
        raise ConfigError(
            f"operators.use names {asking[0]}, which asks a language model, and none is named: "
            "give one with --llm MODEL"
        )
    if config.llm.models and not asking:
        chosen = (*chosen, *LLM_OPERATORS)
    loaded = [load_operator(name) for name in dict.fromkeys(("seed", *chosen))]
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
    return Store.create(
        folder,
        record,
        problems=plan.problems,
        seeds=plan.seeds,
        prepare=lambda: write_heirlooms(folder, plan.heirlooms),
    )


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
        EvaluatorError: The Ray cluster that it names cannot be joined.
    """
    store = Store.open(folder, write=True)
    try:
        config = stored_config(store)
        adjusted = adjust(config, changes or {})
        plan = Plan(
            config=adjusted,
            problems=tuple(store.problems()),
            operators=load_operators(adjusted),
            device=device_kind(adjusted.problems.device, adjusted.evaluation.ray_address),
            notes=check_models(adjusted.llm, Path.cwd()),
        )
        if adjusted != config:
            store.set_config(adjusted.model_dump_json())
    except BaseException:
        store.close()
        raise
    return store, plan


def stored_config(store: Store) -> RunConfig:
    """Return the configuration that a run keeps.

    Raises:
        ConfigError: It is one of another version of EvoKernel.
    """
    try:
        return RunConfig.model_validate_json(store.run().config_json)
    except ValueError as error:
        raise ConfigError(
            f"the configuration stored in {store.folder} does not fit this version of EvoKernel: "
            "use the version that started the run"
        ) from error


def sit(
    store: Store,
    plan: Plan,
    *,
    evaluator: Evaluator | None = None,
    display: Display | None = None,
    replayed: Store | None = None,
) -> Ending:
    """Run, or go on with, a run until it ends or is interrupted.

    Args:
        store: Open for writing.
        plan: What the run is.
        evaluator: Whoever measures; None: the pool of this machine.
        display: Shows the engine meanwhile.
        replayed: Another run, open, from whose record models are answered for; None: models
            are asked.

    Raises:
        KeyboardInterrupt: Ctrl-C; what was recorded stays and can be resumed.
        EvaluatorError: The evaluator does not start, or fails again and again.
        StoreError: The store cannot be written any more.
    """
    if _is_complete(store, plan.config):
        return Ending.of(store, RunState.FINISHED)
    llm = plan.config.llm
    models: ProviderModels | RecordedModels = RecordedModels()
    if llm.models and replayed is None:
        models = ProviderModels(llm, folder=Path.cwd(), rng_seed=plan.config.rng_seed)
    engine = Engine(
        store=store,
        config=plan.config,
        evaluator=evaluator or _pool(plan.config, plan.device, store.run()),
        operators=plan.operators,
        consulting=_consulting(store, llm, models, replayed) if llm.models else None,
        # What a replay's verdicts were matched with is in its folder, or was not known.
        baseline=_baseline_of(store, plan, look=replayed is None),
    )
    return asyncio.run(_sit(engine, models, display))


def _consulting(
    store: Store, config: LlmConfig, models: Models, replayed: Store | None
) -> Consulting:
    """Answers for the operators; what a replay copies from the other run costs nothing."""
    stores = [store] if replayed is None else [store, replayed]
    return Consulting(
        store=store,
        record=Record(*stores),
        models=models,
        allowance=Allowance(config, store.calls() if replayed is None else ()),
        max_prompt_tokens=config.max_prompt_tokens,
    )


def _baseline_of(store: Store, plan: Plan, *, look: bool) -> ChooseBaseline:
    named = plan.config.evaluation.baseline

    def choose(device: DeviceFingerprint) -> Baseline | None:
        if store.counts().evaluations:
            # What began by one objective does not go on by another one.
            return kept_baseline(store.folder)
        given = Path(named) if named else None
        return settle_baseline(store.folder, device, store.problems(), given=given, look=look)

    return choose


async def _sit(
    engine: Engine, models: ProviderModels | RecordedModels, display: Display | None
) -> Ending:
    shown = [asyncio.ensure_future(display(engine))] if display else []
    try:
        async with models:
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


def _pool(config: RunConfig, device: str, run: RunRecord) -> Evaluator:
    """The pool of this machine or of a cluster; a resumed run keeps its noise floor and ceiling."""
    from evaluator.pool import Pool

    # Referees of a CPU take turns at its cores; a GPU has one, and every GPU is used.
    actors = config.evaluation.actors if device == "cpu" else None
    return Pool(
        device=device,
        num_actors=actors,
        address=config.evaluation.ray_address,
        calibrate=run.device is None,
        rates=run.rates,
        deadlines=deadlines_of(config.evaluation, device),
    )
