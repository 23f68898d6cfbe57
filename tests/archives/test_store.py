"""What goes into the store comes out of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from archives.attempt import AttemptState
from archives.candidate import Candidate
from archives.evaluation import (
    LIBRARY_WORK,
    ConfigurationResult,
    Evaluation,
    Rung,
    Status,
)
from archives.records import (
    ProblemState,
    ProblemStatus,
    RunCounts,
    RunState,
)
from archives.store import Store
from problems.errors import StoreError
from problems.graph import OperatorGraph
from tests.archives.store_rows import (
    DEVICE,
    FAILURE,
    RUN,
    P,
    Q,
    at,
    ok,
    problem,
    program,
    proposal,
    tell,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "run", RUN) as opened:
        opened.add_problems([P, Q])
        yield opened


def test_a_run_and_its_problems_are_read_back(store: Store) -> None:
    assert store.run() == RUN
    assert store.problems() == [P, Q]
    store.set_device(DEVICE, noise_floor=0.015, referee_version="3")
    store.set_state(RunState.FINISHED)
    run = store.run()
    assert (run.device, run.noise_floor, run.referee_version) == (DEVICE, 0.015, "3")
    assert run.state is RunState.FINISHED


def test_problems_are_added_once_and_keep_their_order(store: Store) -> None:
    store.add_problems([problem(3), P])
    assert [p.id for p in store.problems()] == [1, 2, 3]


def test_problems_are_skipped_and_solved_with_a_reason(store: Store) -> None:
    store.skip_problem(P.key, "needs 9 GB, 4 GB are free")
    store.solve_problem(Q.key, "98 % of the ceiling")
    assert store.problem_states() == [
        ProblemState(key=P.key, status=ProblemStatus.SKIPPED, reason="needs 9 GB, 4 GB are free"),
        ProblemState(key=Q.key, status=ProblemStatus.SOLVED, reason="98 % of the ceiling"),
    ]


def test_a_graph_is_kept_with_its_problem(store: Store) -> None:
    graph = OperatorGraph(inputs=(3,), parameters={}, buffers={}, nodes=(), outputs=("input0",))
    assert store.graph(P.key) is None
    store.put_graph(P.key, graph)
    assert store.graph(P.key) == graph


def test_an_unknown_problem_is_named(store: Store) -> None:
    with pytest.raises(StoreError, match="no problem with the key 'nothing'"):
        store.skip_problem("nothing", "x")


def test_a_proposal_waits_for_its_verdict(store: Store) -> None:
    first, second = program(1), program(1, block=2)
    store.propose(proposal(at(0), first), first)
    store.propose(proposal(at(1), second, at(0), cost_s=0.5), second, [{"B": 4, "A": 1}])
    assert store.attempt(at(1)) == proposal(at(1), second, at(0), cost_s=0.5)
    assert store.configurations(at(1)) == ({"B": 4, "A": 1},)
    assert list(store.configurations(at(1))[0]) == ["B", "A"]
    assert store.configurations(at(0)) == ()
    assert store.attempt(at(9)) is None
    assert store.candidate(second.id) == second
    assert store.evaluation(P.key, second.id) is None


def test_a_verdict_names_the_configuration_that_won(store: Store) -> None:
    proposed, winner = program(1), program(1, block=4)
    store.propose(proposal(at(0), proposed), proposed, [{"B": 4}])
    store.record(at(0), ok(2.0), winner)
    attempt = store.attempt(at(0))
    assert attempt is not None
    assert attempt.state is AttemptState.EVALUATED
    assert (attempt.candidate, attempt.result) == (proposed.id, winner.id)
    assert store.evaluation(P.key, winner.id) == ok(2.0)
    assert store.evaluation(P.key, proposed.id) == ok(2.0)
    (record,) = store.evaluations(P.key)
    assert (record.proposed, record.candidate) == (proposed.id, winner.id)
    assert (record.slot, record.purpose) == (at(0), "search")
    assert set(store.known(P.key)) == {proposed.id, winner.id}


def test_a_failure_keeps_its_reason_and_has_no_result(store: Store) -> None:
    candidate = program(1)
    tell(store, at(0), candidate, FAILURE)
    attempt = store.attempt(at(0))
    assert attempt is not None
    assert (attempt.state, attempt.reason) == (AttemptState.FAILED, "wrong_value")
    assert attempt.result is None
    assert store.evaluation(P.key, candidate.id) == FAILURE
    assert store.speedups(P.key) == {}


def test_a_proposal_without_a_program_is_recorded_as_it_is(store: Store) -> None:
    failed = proposal(at(0), None, state=AttemptState.FAILED, reason="space_exhausted")
    store.propose(failed, None)
    assert store.attempts() == [failed]


def test_an_attempt_whose_evaluator_broke_has_no_verdict(store: Store) -> None:
    candidate = program(1)
    store.propose(proposal(at(0), candidate), candidate)
    store.fail(at(0), "worker_died")
    attempt = store.attempt(at(0))
    assert attempt is not None
    assert (attempt.state, attempt.reason) == (AttemptState.FAILED, "worker_died")
    assert store.evaluations() == []


def test_a_duplicate_points_at_the_first(store: Store) -> None:
    candidate = program(1)
    tell(store, at(0), candidate, ok(2.0))
    again = proposal(
        at(1),
        candidate,
        state=AttemptState.EVALUATED,
        result=candidate.id,
        duplicate_of=at(0),
    )
    store.propose(again, None)
    assert store.attempt(at(1)) == again
    assert store.known(P.key)[candidate.id].slot == at(0)
    assert store.counts() == RunCounts(attempts=2, evaluations=1)


def test_nothing_is_recorded_twice(store: Store) -> None:
    candidate = program(1)
    tell(store, at(0), candidate, ok(2.0))
    with pytest.raises(StoreError, match="is evaluated already"):
        store.record(at(0), ok(3.0))
    with pytest.raises(StoreError, match="UNIQUE"):
        store.propose(proposal(at(0), candidate), candidate)
    assert [r.evaluation.speedup for r in store.evaluations()] == [2.0]
    assert len(store.attempts()) == 1


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    good, stray = program(1), program(2)
    with pytest.raises(StoreError, match="no attempt 7 of island 0"):
        store.propose_many(
            [(proposal(at(0), good), good, ()), (proposal(at(1), stray, at(7)), stray, ())]
        )
    assert store.attempts() == []
    assert store.known(P.key) == {}


def test_a_verdict_needs_an_attempt(store: Store) -> None:
    with pytest.raises(StoreError, match="propose it first"):
        store.record(at(0), ok(2.0))


def test_attempts_come_in_the_order_of_their_slots(store: Store) -> None:
    slots = [at(1), at(0, 1), at(0, 0, 1), at(0), at(0, 0, 0, Q.key)]
    for number, slot in enumerate(slots):
        candidate = program(number, key=slot.problem)
        store.propose(proposal(slot, candidate), candidate)
    assert [a.slot for a in store.attempts(P.key)] == [at(0), at(1), at(0, 0, 1), at(0, 1)]
    assert [a.slot for a in store.attempts(P.key, 1)] == [at(0, 1)]
    assert [a.slot for a in store.attempts()][-1].problem == Q.key


def test_the_latest_verification_is_what_counts(store: Store) -> None:
    candidate = program(1)
    tell(store, at(0), candidate, ok(3.0))
    store.record_verification(P.key, candidate.id, ok(2.0, Rung.VERIFY))
    store.record_verification(P.key, candidate.id, ok(2.5, Rung.VERIFY))
    assert store.evaluation(P.key, candidate.id) == ok(2.5, Rung.VERIFY)
    assert store.speedups(P.key) == {candidate.id: 2.5}
    assert [r.purpose for r in store.evaluations(P.key, candidate.id)] == [
        "search",
        "verify",
        "verify",
    ]
    assert store.counts() == RunCounts(attempts=1, evaluations=1, verifications=2)


def test_a_failed_verification_leaves_no_speedup(store: Store) -> None:
    candidate = program(1)
    tell(store, at(0), candidate, ok(3.0))
    store.record_verification(P.key, candidate.id, FAILURE)
    assert store.speedups(P.key) == {}
    assert store.evaluation(P.key, candidate.id) == FAILURE


def test_a_verification_on_a_busy_host_leaves_what_was_known(store: Store) -> None:
    unstable = Evaluation(status=Status.UNSTABLE, reason="host_noisy")
    searched, verified = program(1), program(2)
    tell(store, at(0), searched, ok(3.0))
    tell(store, at(1), verified, ok(2.0))
    store.record_verification(P.key, searched.id, unstable)
    store.record_verification(P.key, verified.id, ok(1.9, Rung.VERIFY))
    store.record_verification(P.key, verified.id, unstable)
    assert store.speedups(P.key) == {searched.id: 3.0, verified.id: 1.9}
    assert store.evaluation(P.key, searched.id) == ok(3.0)
    assert store.evaluation(P.key, verified.id) == ok(1.9, Rung.VERIFY)


def test_a_program_remembers_every_configuration_that_was_tried(store: Store) -> None:
    first, second = program(1), program(1, block=2)
    verdict = Evaluation(
        status=Status.WRONG_VALUE,
        reason="wrong_value",
        configurations=(
            ConfigurationResult(configuration={"B": 2}, status=Status.WRONG_VALUE),
            ConfigurationResult(configuration={"B": 4}, status=Status.CRASHED),
        ),
    )
    store.propose(proposal(at(0, 1), second), second)
    store.record(at(0, 1), verdict)
    tell(store, at(0), first, ok(2.0))
    tell(store, at(1), program(2), ok(5.0))
    assert store.tried(P.key, first.program_id) == (
        ConfigurationResult(configuration={"B": 1}, status=Status.OK, latency_ms=0.5),
        *verdict.configurations,
    )
    assert len(store.tried(P.key, first.program_id, before=1)) == 1
    assert store.tried(P.key, "unknown") == ()


def test_a_candidate_is_found_by_the_start_of_its_id(store: Store) -> None:
    for number in range(40):
        candidate = program(number)
        store.propose(proposal(at(number), candidate), candidate)
    last = program(39)
    assert store.candidate(last.id) == store.candidate(last.id, P.key) == last
    assert store.candidate(last.id[:12]) == last
    assert store.candidate(last.id[:12].upper(), P.key) == last
    assert store.problem_of(last.id) == P.key
    with pytest.raises(StoreError, match=r"several candidates .* give more digits"):
        store.candidate(last.id[0])
    with pytest.raises(StoreError, match="no candidate whose id starts with"):
        store.candidate(last.id[:12], Q.key)
    with pytest.raises(StoreError, match="no candidate whose id starts with"):
        store.candidate(last.id, Q.key)
    with pytest.raises(StoreError, match="no candidate whose id starts with"):
        store.candidate("f" * 64)
    with pytest.raises(StoreError, match="hexadecimal"):
        store.candidate("%")
    with pytest.raises(StoreError, match="no candidate with the id"):
        store.problem_of("0")


def test_seeds_wait_until_a_generation_takes_them_up(store: Store) -> None:
    with Store.open(store.folder) as guest:
        guest.request_seed(P.key, "mine.py", "class ModelNew: ...")
        assert [seed.name for seed in guest.waiting_seeds()] == ["mine.py"]
    (taken,) = store.take_seeds(P.key, 1)
    assert (taken.name, taken.source, taken.generation) == ("mine.py", "class ModelNew: ...", 1)
    store.request_seed(P.key, "late.py", "x = 1")
    assert store.take_seeds(P.key, 1) == [taken]
    assert store.take_seeds(Q.key, 1) == []
    assert [seed.name for seed in store.take_seeds(P.key, 2)] == ["late.py"]
    assert store.waiting_seeds() == []


def test_a_reply_that_no_encoding_can_hold_is_stored_all_the_same(store: Store) -> None:
    candidate = Candidate.of(P.key, "text = '\ud800'")
    store.propose(proposal(at(0), candidate, note="\udfff"), candidate)
    assert store.candidate(candidate.id).source == "text = '\\ud800'"


def test_a_run_is_made_with_its_problems_and_their_kernels_at_once(tmp_path: Path) -> None:
    kernels = {P.key: [("mine", "x = 1"), ("yours", "x = 2")]}
    with Store.create(tmp_path / "run", RUN, problems=[P, Q], seeds=kernels):
        pass
    with Store.open(tmp_path / "run", write=True) as store:
        assert store.problems() == [P, Q]
        assert [seed.name for seed in store.take_seeds(P.key, 0)] == ["mine", "yours"]
        assert store.take_seeds(Q.key, 0) == []


def test_a_configuration_is_replaced(store: Store) -> None:
    store.set_config('{"a": 2}')
    assert store.run().config_json == '{"a": 2}'


def test_a_noisy_host_and_what_it_left_without_a_verdict_are_remembered(store: Store) -> None:
    assert not store.run().noisy
    store.set_device(DEVICE, noise_floor=0.05, referee_version="3", noisy=True)
    assert store.run().noisy
    unstable = Evaluation(status=Status.UNSTABLE, reason="host_noisy")
    tell(store, at(0), program(1), unstable)
    tell(store, at(1), program(2), ok(2.0))
    store.record_verification(P.key, program(2).id, unstable)
    assert store.counts() == RunCounts(attempts=2, evaluations=2, verifications=1, unstable=2)


def test_what_the_runs_policy_rejects_is_counted(store: Store) -> None:
    rejected = Evaluation(status=Status.SCREENED, reason=LIBRARY_WORK, rung=Rung.TIME)
    screened = Evaluation(status=Status.SCREENED, reason="no_model_new")
    tell(store, at(0), program(1), rejected)
    tell(store, at(1), program(2), screened)
    tell(store, at(2), program(3), ok(2.0))
    store.record_verification(P.key, program(3).id, rejected)
    assert store.counts() == RunCounts(attempts=3, evaluations=3, verifications=1, library_work=2)
