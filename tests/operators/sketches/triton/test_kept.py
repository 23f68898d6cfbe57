"""What programs keep of their weights, and when they make it anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from operators.sketches.triton.kept_text import KEPT_TEXT


class Packing:
    """The text's function, and how often something was made."""

    def __init__(self) -> None:
        self.room: dict[str, Any] = {"torch": torch}
        self.made: list[float] = []
        exec(KEPT_TEXT, self.room)

    def of(self, weight: torch.Tensor, place: str = "b") -> float:
        found: float = self.room["kept"](place, weight, self.make)
        return found

    def make(self, weight: torch.Tensor) -> float:
        self.made.append(float(weight.detach().sum()))
        return self.made[-1]


@pytest.fixture
def packing() -> Packing:
    return Packing()


def weights(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.full((2,), value))


def test_a_weight_is_packed_once(packing: Packing) -> None:
    weight = weights(1.0)
    assert [packing.of(weight) for _ in range(3)] == [2.0, 2.0, 2.0]
    assert packing.made == [2.0]


def test_a_weight_that_was_written_to_is_packed_anew(packing: Packing) -> None:
    weight = weights(1.0)
    packing.of(weight)
    with torch.no_grad():
        weight.mul_(3.0)
    assert packing.of(weight) == 6.0
    torch.nn.Module.load_state_dict(holder := torch.nn.ParameterList([weight]), {"0": weights(5.0)})
    assert packing.of(holder[0]) == 10.0
    weight.data = torch.full((2,), 7.0)
    assert packing.of(weight) == 14.0
    assert packing.made == [2.0, 6.0, 10.0, 14.0]


def test_another_weight_is_never_taken_for_it(packing: Packing) -> None:
    """Of a second model, or where the first was: what is kept holds its weight, too."""
    for value in range(20):
        assert packing.of(weights(float(value))) == 2.0 * value


def test_two_places_do_not_share(packing: Packing) -> None:
    first, second = weights(1.0), weights(2.0)
    for _ in range(2):
        assert (packing.of(first, "a"), packing.of(second, "b")) == (2.0, 4.0)
    assert packing.made == [2.0, 4.0]


def test_inputs_are_packed_in_every_call(packing: Packing) -> None:
    """The referee refreshes them from outside of torch, which counts nothing then."""
    x = torch.full((2,), 1.0)
    assert [packing.of(x) for _ in range(2)] == [2.0, 2.0]
    assert packing.made == [2.0, 2.0]


def test_parameters_without_versions_are_packed_in_every_call(packing: Packing) -> None:
    with torch.inference_mode():
        weight = weights(1.0)
    assert [packing.of(weight) for _ in range(2)] == [2.0, 2.0]
    assert packing.made == [2.0, 2.0]


def test_a_weight_that_lies_elsewhere_is_packed_anew(packing: Packing) -> None:
    """Its old place is not given to what it becomes: that would look like no change."""
    layer = torch.nn.Linear(64, 64, bias=False)
    packing.of(layer.weight)
    for times in range(1, 40):
        layer.bfloat16()
        layer.float()
        with torch.no_grad():
            layer.weight.data = layer.weight.detach() + 1.0
        packing.of(layer.weight)
        assert len(packing.made) == times + 1


def test_a_graph_that_is_captured_packs_by_itself(
    packing: Packing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept may be another weight's when the graph is replayed."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    weight = weights(1.0)
    monkeypatch.setattr(torch.nn.Parameter, "is_cuda", True, raising=False)
    assert [packing.of(weight) for _ in range(2)] == [2.0, 2.0]
    assert packing.made == [2.0, 2.0]
