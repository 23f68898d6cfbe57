"""What Inductor wrote for a reference: its code, and how that is called.

Made by the evaluator's lifting (it needs torch and the device), read by the operator `compiler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

__all__ = ["OPTION_SETS", "SETS_OF", "Argument", "Kernel", "Lifted", "Output"]

_TEMPLATES = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "ATEN,TRITON",
    "max_autotune_conv_backends": "ATEN,TRITON",
}

OPTION_SETS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "default": {},
        "looped": {"triton.persistent_reductions": False},
        "cooperative": {"triton.cooperative_reductions": True},
        "no_layout": {"layout_optimization": False},
        "unsplit": {"split_reductions": False},
        "tiled": {"triton.prefer_nd_tiling": True},
        "multi_kernel": {"triton.multi_kernel": 1},
        "templates": _TEMPLATES,
        "coordinate_descent": {"coordinate_descent_tuning": True},
        "templates_unfused": {**_TEMPLATES, "epilogue_fusion": False, "prologue_fusion": False},
        "narrow_vectors": {"cpp.simdlen": 256},
    }
)
"""Inductor's options by the name of their set; keys are those of `torch._inductor.config`."""

SETS_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cuda": tuple(name for name in OPTION_SETS if name != "narrow_vectors"),
        "cpu": ("default", "narrow_vectors", "no_layout"),
    }
)
"""The sets that say something to a kind of device.

Those that only write code come first; on a GPU the last four time variants there as well.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What the generated code is given at one place.

    Attributes:
        input: Index of the forward's argument, or None.
        state: Expression that gives a tensor of the model, such as "self.conv.weight"; or "".
        is_number: Whether the input is a plain number, handed over as a float64 tensor.
    """

    input: int | None = None
    state: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where one output of the model is found after the call.

    Attributes:
        result: Index among the values that the generated code returns, or None.
        source: Where it comes from otherwise: an input, or a tensor of the model's; or None.
        view: (shape, stride, offset in elements) where the output is a view of that value.
    """

    result: int | None = None
    source: Argument | None = None
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What Inductor found out about one of its kernels.

    Attributes:
        picked: Parameters it would launch with: block sizes, `num_warps`, `num_stages`.
        tried: All it chose from, `picked` among them.
    """

    picked: Mapping[str, int]
    tried: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """Inductor's code for a reference under one option set.

    Attributes:
        options: Name of the option set.
        code: Text of the module that Inductor wrote; "" where it did not.
        reason: Stable code why there is no text; "" where there is one.
        detail: One line on the reason, for people.
        arguments: What the code's `call` is given, in order.
        outputs: The model's outputs, in order.
        several: Whether the model returns a tuple or list.
        kernels: What is known of its kernels, by name; empty where they were not run.
        torch: The version of torch that wrote it.
        device: Kind of device that it is for, "cuda" or "cpu".
        vector_bits: Width of the vectors in its C++; 0: none.
    """

    options: str
    code: str = ""
    reason: str = ""
    detail: str = ""
    arguments: tuple[Argument, ...] = ()
    outputs: tuple[Output, ...] = ()
    several: bool = False
    kernels: Mapping[str, Kernel]
    torch: str = ""
    device: str = "cuda"
    vector_bits: int = 0

    def __hash__(self) -> int:
        """Tell texts apart; what else there is belongs to the text."""
        return hash((self.options, self.code))

    def to_json(self) -> dict[str, Any]:
        """Return it as data for `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lifted:
        """Return what `to_json` wrote.

        Raises:
            TypeError: A field is lacking or unknown.
        """
        fields = dict(data)
        fields["arguments"] = tuple(Argument(**one) for one in data["arguments"])
        fields["outputs"] = tuple(_output(one) for one in data["outputs"])
        fields["kernels"] = {
            name: Kernel(picked=one["picked"], tried=tuple(one["tried"]))
            for name, one in data["kernels"].items()
        }
        return cls(**fields)


def _output(data: Mapping[str, Any]) -> Output:
    view = data["view"]
    if view is not None:
        shape, stride, offset = view
        view = (tuple(shape), tuple(stride), offset)
    source = None if data["source"] is None else Argument(**data["source"])
    return Output(result=data["result"], source=source, view=view)
