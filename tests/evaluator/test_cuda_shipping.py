"""How long other processes' outputs stay mapped; by a stand-in for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from archives.evaluation import Status
from evaluator.worker.cuda.shipping import MOST_MAPPED, Mappings, attached, describe_outputs
from evaluator.worker.failures import Failure
from tests.evaluator.stand_in_gpu import StandInDriver


class Device(StandInDriver):
    """Notes what is mapped."""

    def __init__(self) -> None:
        super().__init__(waits=False)
        self.mapped: list[int] = []
        self.num_attached = 0

    def attach(self, handle: str) -> tuple[int, int]:
        found = super().attach(handle)
        self.mapped.append(found[0])
        self.num_attached += 1
        return found

    def detach(self, address: int) -> None:
        self.mapped.remove(address)


@pytest.fixture
def device() -> Device:
    return Device()


def described(device: Device, output: torch.Tensor, number: int | None = None) -> dict[str, Any]:
    (found,) = describe_outputs(device, output, {}, {})["outputs"]
    return found if number is None else {**found, "allocation": number}


def read(device: Device, output: dict[str, Any], mappings: Mappings | None = None) -> list[float]:
    with attached(device, [{**output, "room": None}], {}, mappings) as (tensor,):
        found: list[float] = tensor.tolist()
    return found


def test_an_allocation_is_unmapped_after_the_block(device: Device) -> None:
    assert read(device, described(device, torch.tensor([1.0, 2.0]))) == [1.0, 2.0]
    assert device.mapped == []


def test_what_stays_mapped_is_read_again_where_it_lies(device: Device) -> None:
    mappings = Mappings(device)
    output = torch.tensor([1.0, 2.0])
    read(device, described(device, output), mappings)
    output += 1
    assert read(device, described(device, output), mappings) == [2.0, 3.0]
    assert device.num_attached == 1
    mappings.let_go()
    assert device.mapped == []


def test_a_new_allocation_with_an_old_handle_is_mapped_anew(device: Device) -> None:
    mappings = Mappings(device)
    output = torch.tensor([1.0])
    for number in (1, 2, 2):
        read(device, described(device, output, number), mappings)
    assert device.num_attached == 2


def test_memory_that_was_given_back_is_let_go_in_time(device: Device) -> None:
    mappings = Mappings(device)
    output = torch.tensor([1.0])
    for number in range(3 * MOST_MAPPED):
        read(device, described(device, output, number), mappings)
        assert len(device.mapped) <= MOST_MAPPED


def test_memory_that_is_gone_with_its_owner_is_let_go_all_the_same(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = Mappings(device)
    output = torch.tensor([1.0])
    read(device, described(device, output, 1), mappings)

    def gone(address: int) -> None:
        raise Failure(Status.RUNTIME_ERROR, "driver_error", f"nothing at {address}")

    monkeypatch.setattr(device, "detach", gone)
    mappings.let_go()
    assert read(device, described(device, output, 1), mappings) == [1.0]
    assert device.num_attached == 2


def test_an_allocation_in_the_place_of_one_that_is_mapped_still_is_mapped_in_its_stead(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = Mappings(device)
    output = torch.tensor([1.0])
    read(device, described(device, output, 1), mappings)
    attach = device.attach

    def one_at_a_time(handle: str) -> tuple[int, int]:
        if device.mapped:
            raise Failure(Status.RUNTIME_ERROR, "driver_error", "mapped already")
        return attach(handle)

    monkeypatch.setattr(device, "attach", one_at_a_time)
    assert read(device, described(device, output, 2), mappings) == [1.0]


def test_outputs_of_one_call_are_mapped_together(device: Device) -> None:
    mappings = Mappings(device)
    kept = [torch.tensor([float(n)]) for n in range(MOST_MAPPED + 3)]
    outputs = [{**described(device, one, n), "room": None} for n, one in enumerate(kept)]
    with attached(device, outputs, {}, mappings) as tensors:
        assert len(device.mapped) == len(outputs)
        assert [tensor.item() for tensor in tensors] == [float(n) for n in range(len(outputs))]
