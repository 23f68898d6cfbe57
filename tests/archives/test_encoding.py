import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.encoding import (
    decode_evaluation,
    decode_problem,
    encode_evaluation,
    encode_problem,
    storable,
    to_text,
)
from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Mismatch,
    Reuse,
    Rung,
    Status,
)
from problems.problem import Domain, DomainKind, Problem, Scale

positive = st.floats(1e-6, 1e6)
texts = st.text("ab ß'\"\\{}\n\ud800", max_size=40)
choices = st.one_of(st.booleans(), st.integers(-999, 999), positive, texts)
configurations = st.dictionaries(texts, choices, max_size=4)
devices = st.builds(
    DeviceFingerprint,
    kind=st.sampled_from(["cpu", "cuda"]),
    name=texts,
    uuid=texts,
    threads=st.integers(0, 8),
    versions=st.dictionaries(texts, texts, max_size=3),
)
shared = {
    "log": st.text("ab ß'\"\n", max_size=40),
    "error": st.none() | positive,
    "error_bound": st.none() | positive,
    "facts": st.builds(
        KernelFacts,
        launches=st.none() | st.integers(0, 9),
        own_kernel_share=st.none() | st.floats(0, 1),
        reuse=st.none() | st.sampled_from(Reuse),
        work=st.none() | st.integers(0, 4096),
        vector_bits=st.none() | st.sampled_from([0, 128, 256, 512]),
        streams=st.none() | st.integers(0, 9),
        spread=st.none() | positive | st.sampled_from(Mismatch),
    ),
    "configuration": st.none() | configurations,
    "configurations": st.lists(
        st.builds(
            ConfigurationResult,
            configuration=configurations,
            status=st.sampled_from(Status),
            latency_ms=st.none() | positive,
        ),
        max_size=3,
    ).map(tuple),
    "isolation": texts,
    "device": st.none() | devices,
    "referee_version": texts,
    "cost_s": st.floats(0, 100),
}
failures = st.builds(
    Evaluation,
    status=st.sampled_from([s for s in Status if s is not Status.OK]),
    reason=st.text(min_size=1, max_size=20),
    rung=st.sampled_from(Rung),
    **shared,
)
successes = st.builds(
    Evaluation,
    status=st.just(Status.OK),
    rung=st.sampled_from([Rung.TIME, Rung.VERIFY]),
    latency_ms=positive,
    reference_ms=positive,
    speedup=positive,
    interval=st.tuples(positive, positive).map(lambda p: Interval(low=min(p), high=max(p))),
    matched_speedup=st.none() | positive,
    roofline_share=st.none() | st.floats(0, 1),
    **shared,
)


@given(evaluation=st.one_of(failures, successes))
def test_an_evaluation_survives_json(evaluation: Evaluation) -> None:
    text = to_text(encode_evaluation(evaluation))
    assert decode_evaluation(json.loads(text)) == evaluation


def test_the_order_of_a_configuration_survives_json() -> None:
    point = {"tile": 1, "BLOCK": 2}
    verdict = Evaluation(status=Status.CRASHED, reason="signal", configuration=point)
    decoded = decode_evaluation(json.loads(to_text(encode_evaluation(verdict))))
    assert decoded.configuration is not None
    assert list(decoded.configuration) == ["tile", "BLOCK"]


def test_what_is_at_its_default_takes_no_room() -> None:
    verdict = Evaluation(status=Status.CRASHED, reason="signal")
    assert encode_evaluation(verdict) == {"status": "CRASHED", "reason": "signal"}


def test_a_problem_survives_json() -> None:
    problem = Problem(
        level=1,
        id=95,
        name="CrossEntropyLoss",
        family="loss",
        scale=Scale.SMALL,
        source="class Model: ...\n",
        domains=(Domain(kind=DomainKind.REAL), Domain(kind=DomainKind.INDEX, upper=10)),
        notes=("int64 targets",),
        degenerate="constant output",
        loose="zeros pass",
    )
    assert decode_problem(json.loads(to_text(encode_problem(problem)))) == problem


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        decode_evaluation({"status": "CRASHED", "reason": "signal", "colour": "red"})


def test_lone_surrogates_are_written_out() -> None:
    assert storable("a\ud800b") == "a\\ud800b"
    assert storable("größe") == "größe"
