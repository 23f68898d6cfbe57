import pytest

from archives.evaluation import DeviceFingerprint, Evaluation, Interval, Rung, Status


def test_a_correct_candidate_needs_its_numbers() -> None:
    interval = Interval(low=1.0, high=2.0)
    with pytest.raises(AssertionError, match="speedup"):
        Evaluation(status=Status.OK, interval=interval, latency_ms=1.0, rung=Rung.TIME)
    with pytest.raises(AssertionError, match="interval"):
        Evaluation(status=Status.OK, speedup=1.5, latency_ms=1.0, rung=Rung.TIME)
    with pytest.raises(AssertionError, match="latency"):
        Evaluation(status=Status.OK, speedup=1.5, interval=interval, rung=Rung.TIME)
    with pytest.raises(AssertionError, match="rung"):
        Evaluation(status=Status.OK, speedup=1.5, interval=interval, latency_ms=1.0)


def test_a_failed_candidate_has_a_reason_and_no_fitness() -> None:
    with pytest.raises(AssertionError, match="reason"):
        Evaluation(status=Status.CRASHED)
    with pytest.raises(AssertionError, match="no speedup"):
        Evaluation(status=Status.CRASHED, reason="signal", speedup=2.0)


def test_a_log_is_counted_in_bytes() -> None:
    Evaluation(status=Status.CRASHED, reason="signal", log="a" * 4096)
    with pytest.raises(AssertionError, match="4 KB"):
        Evaluation(status=Status.CRASHED, reason="signal", log="ä" * 2049)


def test_an_interval_has_its_ends_in_order() -> None:
    with pytest.raises(AssertionError, match="low <= high"):
        Interval(low=2.0, high=1.0)


@pytest.mark.parametrize(
    ("kind", "threads", "text"),
    [("cpu", 1, "X, 1 thread"), ("cpu", 4, "X, 4 threads"), ("cuda", 0, "X")],
)
def test_a_device_names_its_threads_where_they_matter(kind: str, threads: int, text: str) -> None:
    device = DeviceFingerprint(kind=kind, name="X", uuid="u", threads=threads, versions={})
    assert str(device) == text
