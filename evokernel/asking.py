"""One question of one operator, outside of a run: what it would send, and what comes of it.

For people who tune prompts. About a run, the question is the one that its search would ask next:
the same parents, inspirations and lessons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from archives.attempt import Slot
from archives.evaluation import DeviceFingerprint
from archives.llm_call import CallOutcome, Message
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.config import RunConfig
from evokernel.consulting import Models
from evokernel.knowledge import Knowledge
from evokernel.launch import stored_config
from evokernel.search import ProblemSearch, recover
from operators.llm.consult import Answer
from operators.operator import Operator, OperatorContext, Parent, Proposal
from problems.errors import ConfigError, ProblemError
from problems.problem import Problem

__all__ = ["Exchange", "Inquiry", "Subject", "inquire", "subject_alone", "subject_of_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question and its answer.

    Attributes:
        messages: What was sent, or would be, oldest first.
        answer: What came back; of the outcome `BUDGET` where nothing was sent.
    """

    messages: tuple[Message, ...]
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What came of asking an operator for one child.

    Attributes:
        exchanges: Its questions, in order.
        proposal: What it brought forth.
    """

    exchanges: tuple[Exchange, ...]
    proposal: Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is asked about.

    Attributes:
        search: The search on the problem, as far as it has come.
        knowledge: What a model is told of it.
        device: Where it is measured.
        parents: Candidates to start from.
    """

    search: ProblemSearch
    knowledge: Knowledge
    device: DeviceFingerprint
    parents: tuple[Parent, ...] = ()


async def subject_alone(problem: Problem, config: RunConfig, evaluator: Evaluator) -> Subject:
    """Return a problem that was never searched.

    Args:
        problem: The problem.
        config: For the number of islands.
        evaluator: Traces the problem; it is started and closed.

    Raises:
        EvaluatorError: It does not start here.
    """
    search = ProblemSearch.begin(problem, 0, config)
    try:
        capacity = await evaluator.start()
        search.graph = await evaluator.graph(problem)
    except ProblemError:
        search.missing.add("graph")  # It can be asked about all the same.
    finally:
        await evaluator.close()
    return Subject(
        search=search,
        knowledge=Knowledge(
            search=search,
            relatives=(),
            device=capacity.device,
            recall=_nobody,
            rates=capacity.rates,
        ),
        device=capacity.device,
    )


def subject_of_run(store: Store, problem: Problem, parents: Sequence[str]) -> Subject:
    """Return a problem as a run knows it.

    Args:
        store: The run, open.
        problem: One of its problems.
        parents: First digits of the ids of candidates to start from.

    Raises:
        ConfigError: The run has measured nothing yet, or a parent was not measured.
        StoreError: There is no such candidate.
    """
    run = store.run()
    device = run.device
    if device is None:
        raise ConfigError(
            f"the run {store.folder} has measured nothing yet: there is nothing to tell"
        )
    config = stored_config(store)
    searches = []
    for index, each in enumerate(store.problems()):
        if each.family == problem.family:
            found = ProblemSearch.begin(each, index, config)
            recover(found, store)
            found.graph = store.graph(each.key)
            searches.append(found)
    search = next(found for found in searches if found.problem.key == problem.key)

    def recall(of: ProblemSearch, slot: Slot, candidate_id: str) -> Parent:
        candidate = store.candidate(candidate_id, of.problem.key)
        return Parent(
            slot=slot,
            candidate=candidate,
            evaluation=of.register.evaluation(candidate_id),
            tried=of.register.tried(candidate.program_id),
        )

    return Subject(
        search=search,
        knowledge=Knowledge(
            search=search,
            relatives=[found for found in searches if found is not search],
            device=device,
            recall=recall,
            rates=run.rates,
        ),
        device=device,
        parents=tuple(_parent(store, problem, prefix) for prefix in parents),
    )


async def inquire(
    subject: Subject, operator: Operator, config: RunConfig, models: Models | None
) -> Inquiry:
    """Let an operator ask for one child.

    Args:
        subject: What is asked about.
        operator: One that asks a model.
        config: Its first model is asked, within its limits of tokens.
        models: Puts the questions; None: nothing is sent.

    Raises:
        ConfigError: The operator wants another number of parents, or asks no model.
    """
    least, most = operator.num_parents
    if not least <= len(subject.parents) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ConfigError(
            f"the operator {operator.name} wants {wanted} parents, got {len(subject.parents)}: "
            "name each with --parent, out of a run given with --run"
        )
    population = subject.search.population
    island = population.islands[subject.parents[0].slot.island if subject.parents else 0]
    consult = _Listening(config.llm.models[0], config.llm.max_prompt_tokens, models)
    context = OperatorContext(
        problem=subject.search.problem,
        graph=subject.search.graph,
        device=subject.device.kind,
        threads=max(1, subject.device.threads),
        generation=subject.search.reached + 1,
        island=island.index,
        known=subject.search.register.known_ids(),
        library=population.config.evaluation.library,  # the run's, whoever asks about it
        settings=config.operators.settings.get(operator.name, {}),
        consult=consult,
        brief=subject.knowledge.brief_for(island),
    )
    if not operator.applies(context) or operator.applies(replace(context, consult=None)):
        raise ConfigError(f"the operator {operator.name} does not ask a language model here")
    rng = np.random.Generator(np.random.PCG64(config.rng_seed))
    proposal = await operator.propose(subject.parents, context, rng)
    return Inquiry(exchanges=tuple(consult.exchanges), proposal=proposal)


class _Listening:
    """Puts questions, or only takes note of them; see `operators.llm.consult.Consult`."""

    def __init__(self, model: str, max_prompt_tokens: int, models: Models | None) -> None:
        self.model = model
        self.max_prompt_tokens = max_prompt_tokens
        self.exchanges: list[Exchange] = []
        self._models = models

    async def ask(self, messages: Sequence[Message]) -> Answer:
        answer = Answer(outcome=CallOutcome.BUDGET, log="not sent")
        if self._models is not None:
            asked = await self._models.ask(self.model, messages)
            answer = Answer(
                outcome=asked.response.outcome,
                text=asked.response.text,
                finish=asked.response.finish,
                cost_usd=asked.cost_usd or 0.0,
                log=asked.response.log,
            )
        self.exchanges.append(Exchange(messages=tuple(messages), answer=answer))
        return answer


def _parent(store: Store, problem: Problem, prefix: str) -> Parent:
    candidate = store.candidate(prefix, problem.key)
    evaluation = store.evaluation(problem.key, candidate.id)
    if evaluation is None:
        raise ConfigError(f"the candidate {candidate.id[:12]} was not measured: name another one")
    return Parent(
        slot=store.known(problem.key)[candidate.id].slot,
        candidate=candidate,
        evaluation=evaluation,
        tried=store.tried(problem.key, candidate.program_id),
    )


def _nobody(search: ProblemSearch, slot: Slot, candidate_id: str) -> Parent:
    raise AssertionError("a problem that was never searched has no elites")
