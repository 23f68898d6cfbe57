from __future__ import annotations

from archives.attempt import Attempt, Slot
from archives.candidate import Candidate
from archives.configuration import with_configuration
from archives.evaluation import ConfigurationResult, Evaluation, Status
from evaluator.evaluator import EvaluationRequest
from evokernel.register import Child, KnownIds, Register, judged
from tests.evokernel import landscape as world

KEY = world.problem(1).key


def at(value: int) -> Candidate:
    point = dict.fromkeys(world.NAMES, value)
    return Candidate.of(KEY, with_configuration(world.PROGRAM, point))


def slot(index: int, generation: int = 0) -> Slot:
    return Slot(problem=KEY, generation=generation, island=0, index=index)


def test_the_same_point_is_a_duplicate_however_it_is_proposed() -> None:
    register = Register()
    point = dict.fromkeys(world.NAMES, 3)
    assert register.claim(slot(0), at(3), ()) == ((), None)
    assert register.claim(slot(1), at(0), (point,)) == ((), slot(0))
    assert register.claim(slot(2), at(3), ()) == ((), slot(0))


def test_only_the_new_points_of_a_batch_are_left() -> None:
    register = Register()
    points = [dict.fromkeys(world.NAMES, value) for value in range(3)]
    register.claim(slot(0), at(1), ())
    new, earlier = register.claim(slot(1), at(0), points)
    assert new == (points[0], points[2])
    assert earlier is None


def test_a_program_without_parameters_is_known_by_its_text() -> None:
    register = Register()
    plain = Candidate.of(KEY, "class ModelNew:\n    pass\n")
    commented = Candidate.of(KEY, "class ModelNew:  # the same\n    pass\n")
    assert register.claim(slot(0), plain, ()) == ((), None)
    assert register.claim(slot(1), commented, ()) == ((), slot(0))


def test_points_without_a_verdict_may_be_tried_again() -> None:
    register = Register()
    register.claim(slot(0), at(1), ())
    register.forget(slot(0))
    assert register.claim(slot(1), at(1), ()) == ((), None)


def test_operators_see_a_generation_only_when_it_is_closed() -> None:
    register = Register()
    candidate = at(2)
    point = dict.fromkeys(world.NAMES, 2)
    evaluation = world.Landscape().judge(
        EvaluationRequest(problem=world.problem(1), candidate=candidate, configurations=(point,))
    )
    child = Child(
        attempt=Attempt(slot=slot(0), operator="tune", candidate=candidate.id),
        program=candidate.program_id,
        result=candidate.id,
        evaluation=evaluation,
    )
    register.settle(child)
    assert candidate.id not in register.known_ids()
    assert register.tried(candidate.program_id) == ()
    register.close([child])
    assert {candidate.id, candidate.program_id} <= register.known_ids()
    assert register.evaluation(candidate.id) is evaluation
    assert register.tried(candidate.program_id) == (
        ConfigurationResult(
            configuration=point, status=Status.OK, latency_ms=1 / world.speedup_at(point, 1)
        ),
    )


def test_points_that_a_failed_verdict_leaves_out_may_be_tried_again() -> None:
    register = Register()
    points = [dict.fromkeys(world.NAMES, value) for value in range(3)]
    candidate = at(0)
    register.claim(slot(0), candidate, points)
    wrong = ConfigurationResult(configuration=points[1], status=Status.WRONG_VALUE)
    evaluation = Evaluation(
        status=Status.WRONG_VALUE, reason="wrong_value", configurations=(wrong,)
    )
    assert judged(evaluation, points) == (points[1],)
    child = Child(
        attempt=Attempt(slot=slot(0), operator="tune", candidate=candidate.id),
        program=candidate.program_id,
        result=candidate.id,
        evaluation=evaluation,
    )
    register.close([child])
    new, _ = register.claim(slot(0, 1), candidate, points)
    assert new == (points[0], points[2])


def test_a_failed_verdict_that_names_no_point_is_about_all() -> None:
    register = Register()
    points = [dict.fromkeys(world.NAMES, value) for value in range(3)]
    candidate = at(0)
    register.claim(slot(0), candidate, points)
    evaluation = Evaluation(status=Status.BUILD_ERROR, reason="does_not_compile")
    child = Child(
        attempt=Attempt(slot=slot(0), operator="tune", candidate=candidate.id),
        program=candidate.program_id,
        result=candidate.id,
        evaluation=evaluation,
    )
    register.close([child])
    assert register.claim(slot(0, 1), candidate, points) == ((), slot(0))


def test_known_ids_are_both_old_and_new_and_count_each_once() -> None:
    candidate = at(4)
    known = KnownIds({candidate.id, "old"})
    known.add(candidate)
    assert len(known) == 3
    assert set(known) == {candidate.id, candidate.program_id, "old"}
    assert "other" not in known
