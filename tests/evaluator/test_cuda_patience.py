"""Memory that others have at the moment is waited for."""

from __future__ import annotations

import pytest
import torch

from archives.evaluation import Status
from evaluator.worker.cuda import patience
from evaluator.worker.failures import describe


class Driver:
    """Counts how often memory was given back."""

    def __init__(self) -> None:
        self.trims = 0

    def trim(self) -> None:
        self.trims += 1


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(patience, "_PAUSE_S", 0.0)


def test_what_finds_no_memory_is_done_later() -> None:
    driver, left = Driver(), [1, 2]

    def work() -> str:
        if left:
            left.pop()
            raise torch.OutOfMemoryError
        return "done"

    assert patience.patiently(driver, work) == "done"  # type: ignore[arg-type] # trims only
    assert driver.trims == 2


def test_what_never_fits_fails() -> None:
    def work() -> str:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        patience.patiently(Driver(), work)  # type: ignore[arg-type] # trims only


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Triton Error [CUDA]: out of memory",
    ],
)
def test_whoever_says_that_there_is_no_memory_is_understood(text: str) -> None:
    failure = describe(
        RuntimeError(text), file="x.py", status=Status.RUNTIME_ERROR, reason="forward_raised"
    )
    assert (failure.status, failure.reason) == (Status.OUT_OF_MEMORY, "allocation_failed")
    lost = describe(
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        file="x.py",
        status=Status.RUNTIME_ERROR,
        reason="forward_raised",
    )
    assert lost.reason == "cuda_error"
