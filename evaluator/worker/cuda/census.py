"""A census of a candidate's kernels on a GPU: how many, whose, and how they are built.

Counted apart from every timing, with torch's profiler, in a pass of its own. Whose a kernel is,
its name tells (`owners`). The profiler tells registers, shared memory, grids and streams; what
Triton compiled tells matrix instructions, which are not looked for in what other compilers made
(docs/decisions/0022).

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
from archives.language import texts_of
from evaluator.worker.cuda.owners import Declared, declared_in, is_library
from problems.syntax import parse

__all__ = ["Census", "Launch", "declared_by", "facts_of", "launches_in"]

_LIBRARY_SHARE = 0.1
"""From this share of the time on, a library's kernels are where reuse lives."""
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
        stream: Number of the stream that it ran on; None where unknown.
        number: Grows with the order in which kernels were launched; those of a graph share one.
    """

    name: str
    us: float
    blocks: int = 0
    registers: int = 0
    shared_bytes: int = 0
    stream: int | None = None
    number: int = 0


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

    def facts(self, folders: Sequence[str], source: str) -> dict[str, Any]:
        """Return the fields of `KernelFacts` that can be told of the calls that were watched.

        Args:
            folders: Where the candidate's build artefacts lie.
            source: Text of its module.

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
        declared = declared_by(source, folders)
        return facts_of(launches, self._calls, self._moved_bytes, _compiled(folders), declared)


def declared_by(source: str, folders: Sequence[str]) -> Declared:
    """Return what CUDA C++ of a candidate declares: in its strings, and in `.cu` files of it.

    Args:
        source: Text of its module.
        folders: Where its build artefacts lie, files among them that it puts together as it builds.
    """
    try:
        texts = texts_of(parse(source))
    except SyntaxError:
        texts = []
    files = (path for folder in folders for path in Path(folder).rglob("*.cu") if path.is_file())
    return declared_in([*texts, *(path.read_text(errors="replace") for path in files)])


def facts_of(
    launches: Sequence[Launch],
    calls: int,
    moved_bytes: int,
    compiled: dict[str, dict[str, Any]],
    declared: Declared | None = None,
) -> dict[str, Any]:
    """Derive facts from what ran.

    Args:
        launches: Kernels of all calls.
        calls: How many calls these were.
        moved_bytes: Bytes of inputs and outputs of one call.
        compiled: What is known of kernels that the candidate compiled, by name: "shared" (bytes),
            "tensor_core" (whether matrix instructions are used).
        declared: What its CUDA C++ declares.
    """
    names = frozenset(compiled)
    own = [launch for launch in launches if not is_library(launch.name, names, declared)]
    total_us = sum(launch.us for launch in launches)
    share = sum(launch.us for launch in own) / total_us if total_us else 0.0
    main = max(own, key=lambda launch: launch.us, default=None)
    work = moved_bytes // main.blocks if main is not None and main.blocks else None
    return {
        "launches": max(1, round(len(launches) / calls)),
        "own_kernel_share": share,
        "reuse": _reuse(share, main, compiled),
        "work": work,
        "streams": _streams(launches, calls),
        **({} if main is None else _resources(main)),
    }


def _streams(launches: Sequence[Launch], calls: int) -> int | None:
    """How many streams the kernels of the last call ran on: a pool hands others to each call."""
    in_order = sorted(launches, key=lambda launch: launch.number)
    last = in_order[-max(1, round(len(launches) / calls)) :]
    streams = {launch.stream for launch in last}
    return None if None in streams else len(streams)


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
    return launches_in(events)


def launches_in(events: Sequence[dict[str, Any]]) -> list[Launch]:
    """Return the kernels among the events of a trace, as torch's profiler exports it."""
    return [_launch(event) for event in events if event.get("cat") == "kernel"]


def _launch(event: dict[str, Any]) -> Launch:
    told = event.get("args", {})
    return Launch(
        name=str(event["name"]),
        us=float(event.get("dur", 0.0)),
        blocks=prod(int(size) for size in told.get("grid", (0,))),
        registers=int(told.get("registers per thread", 0)),
        shared_bytes=int(told.get("shared memory", 0)),
        stream=None if told.get("stream") is None else int(told["stream"]),
        number=int(told.get("correlation", 0)),
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
