"""A census of a candidate's kernels on a GPU: how many, whose, and how they are built.

Counted apart from every timing, with torch's profiler, in a pass of its own. A kernel is a
library's where its name is one of torch's or of NVIDIA's libraries; all others are the
candidate's own. The profiler tells registers, shared memory and grids; what Triton compiled tells
matrix instructions.

Covered: honest programs, whose facts are descriptors and shown to people. Not covered: a program
that lies about itself in its own process; no verdict rests on this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from archives.evaluation import Reuse

__all__ = ["Census", "Launch", "facts_of", "is_library"]

_LIBRARY_SHARE = 0.1
"""From this share of the time on, a library's kernels are where reuse lives."""
_LIBRARY = re.compile(
    r"at::|at_cuda|c10::|cublas|cudnn|cutlass|cufft|cusparse|cub::|cub_|thrust|gemm|gemv|"
    r"nvjet|xmma|implicit_convolve|wgrad|dgrad|fprop|winograd|flash_fwd|fmha|pytorch_|nccl|"
    r"vectorized_elementwise|elementwise_kernel|softmax_warp|Memcpy|Memset|splitKreduce",
)
_TENSOR_CORE = re.compile(r"\b(wgmma|mma\.sync|tcgen05)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel that ran.

    Attributes:
        name: Its name, demangled.
        us: Time on the device.
        blocks: Programs (thread blocks) in its grid; 0 where unknown.
        registers: Registers of a thread; 0 where unknown.
        shared_bytes: Shared memory of a program.
    """

    name: str
    us: float
    blocks: int = 0
    registers: int = 0
    shared_bytes: int = 0


def is_library(name: str, own_names: frozenset[str] = frozenset()) -> bool:
    """Tell whether a kernel belongs to torch or to a library, by its name.

    Args:
        name: The kernel's.
        own_names: Names of kernels that the candidate is known to have compiled.
    """
    return name not in own_names and _LIBRARY.search(name) is not None


class Census:
    """A candidate's calls under the profiler.

    Three steps, of which only the second one needs the device: attaching takes a tenth of a second
    the first time, and detaching and reading what was seen take as long.
    """

    def __init__(self) -> None:
        self._seen: Any = None
        self._calls = self._moved_bytes = 0

    def prepare(self) -> None:
        """Attach the profiler to this process, whose context exists."""
        with _profiler():
            pass

    def watch(self, model: Callable[..., Any], arguments: Sequence[object], calls: int) -> None:
        """Call a candidate under the profiler.

        Args:
            model: Built, and called before.
            arguments: Inputs of one call.
            calls: How many calls to watch.
        """
        torch.cuda.synchronize()
        seen = _profiler()
        seen.start()
        for _ in range(calls):
            outputs = model(*arguments)
        torch.cuda.synchronize()
        self._seen = seen
        items = outputs if isinstance(outputs, tuple | list) else [outputs]
        tensors = [item for item in (*arguments, *items) if isinstance(item, torch.Tensor)]
        self._moved_bytes = sum(one.numel() * one.element_size() for one in tensors)
        self._calls = calls

    def facts(self, folders: Sequence[str]) -> dict[str, Any]:
        """Return the fields of `KernelFacts` that can be told of the calls that were watched.

        Args:
            folders: Where the candidate's build artefacts lie.

        Returns:
            The fields; {} where the profiler does not attach, or nothing was watched.
        """
        seen, self._seen = self._seen, None
        if seen is None:
            return {}
        seen.stop()
        launches = _launches(seen)
        if not launches:
            return {}
        return facts_of(launches, self._calls, self._moved_bytes, _compiled(folders))


def facts_of(
    launches: Sequence[Launch], calls: int, moved_bytes: int, compiled: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Derive facts from what ran.

    Args:
        launches: Kernels of all calls.
        calls: How many calls these were.
        moved_bytes: Bytes of inputs and outputs of one call.
        compiled: What is known of kernels that the candidate compiled, by name: "shared" (bytes),
            "tensor_core" (whether matrix instructions are used).
    """
    own_names = frozenset(compiled)
    own = [launch for launch in launches if not is_library(launch.name, own_names)]
    total_us = sum(launch.us for launch in launches)
    share = sum(launch.us for launch in own) / total_us if total_us else 0.0
    main = max(own, key=lambda launch: launch.us, default=None)
    work = moved_bytes // main.blocks if main is not None and main.blocks else None
    return {
        "launches": max(1, round(len(launches) / calls)),
        "own_kernel_share": share,
        "reuse": _reuse(share, main, compiled),
        "work": work,
        **({} if main is None else _resources(main)),
    }


def _resources(main: Launch) -> dict[str, int]:
    """What a program of the longest kernel takes, and how many there are, as far as is known."""
    if not main.registers:
        return {}
    found = {"registers": main.registers, "shared_bytes": main.shared_bytes}
    return found | ({"programs": main.blocks} if main.blocks else {})


def _reuse(share: float, main: Launch | None, compiled: dict[str, dict[str, Any]]) -> Reuse | None:
    if 1 - share >= _LIBRARY_SHARE:
        return Reuse.LIBRARY
    if main is None:
        return None
    facts = compiled.get(main.name)
    if facts is None and not main.registers:
        return None
    if facts is not None and facts["tensor_core"]:
        return Reuse.LIBRARY
    shared = main.shared_bytes if facts is None else facts["shared"]
    return Reuse.CACHE if shared else Reuse.REGISTERS


def _profiler() -> Any:  # noqa: ANN401 - torch types none of it
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CUDA])


def _launches(seen: Any) -> list[Launch]:  # noqa: ANN401 - torch types none of it
    path = Path("census.json")
    seen.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    path.unlink()
    return [_launch(event) for event in events if event.get("cat") == "kernel"]


def _launch(event: dict[str, Any]) -> Launch:
    told = event.get("args", {})
    return Launch(
        name=str(event["name"]),
        us=float(event.get("dur", 0.0)),
        blocks=prod(int(size) for size in told.get("grid", (0,))),
        registers=int(told.get("registers per thread", 0)),
        shared_bytes=int(told.get("shared memory", 0)),
    )


def _compiled(folders: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What Triton wrote down of the kernels it compiled into some folders."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for path in Path(folder).rglob("*.json"):
            if path.name.startswith("__grp__"):
                continue
            facts = json.loads(path.read_text())
            if "shared" not in facts or "name" not in facts:
                continue
            code = path.with_suffix(".ptx")
            text = code.read_text() if code.exists() else ""
            tensor_core = _TENSOR_CORE.search(text) is not None
            found[facts["name"]] = {"shared": facts["shared"], "tensor_core": tensor_core}
    return found
