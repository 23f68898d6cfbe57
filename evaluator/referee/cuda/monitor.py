"""Does the GPU run as it should, and for us alone? Looked at between the blocks of a timing.

Read through NVIDIA's management library. Where that is missing, or shows less (in a container
processes may carry other numbers than here), less is known and nothing is held against anybody: a
device that changes its pace still shows in the reference's own times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from evaluator.processes import descendants
from evaluator.referee.cuda.nvml import Nvml, NvmlError

__all__ = ["NOTHING_SEEN", "Conditions", "Look", "Monitor", "joined", "open_monitor", "summary"]

_SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, thermal slowdown by software or hardware, power brake: not the power cap,
which is a steady state of many GPUs under load."""
_BUSY_PERCENT = 5
_LEAST_CLOCK_SHARE = 0.75
"""Below this share of the timing's median clock the device was saving power or worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The GPU at one moment.

    Attributes:
        clock_mhz: Clock of its multiprocessors.
        temperature_c: Its core's temperature.
        slowed: Whether heat or its power supply slows it.
        foreign: Processes of others that used it since the timing began; None: cannot be told.
    """

    clock_mhz: int
    temperature_c: int
    slowed: bool
    foreign: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a timing ran under.

    Attributes:
        looks: One for each block.
        dropped: Blocks that did not count for it.
        overclaimed: How many times what sealed legs confirm its events claimed, >= 1.
        elsewhere: How many times as fast the reference was in a candidate's place, >= 1.
    """

    looks: tuple[Look, ...]
    dropped: int
    overclaimed: float = 1.0
    elsewhere: float = 1.0


NOTHING_SEEN = Conditions(looks=(), dropped=0)


class Monitor:
    """Looks at one GPU. One timing at a time: it begins with `begin`."""

    def __init__(self, nvml: Nvml, own: Callable[[], Sequence[int]] | None = None) -> None:
        """Take a GPU.

        Args:
            nvml: The GPU.
            own: Tells this program's processes; by default this process and its descendants.
        """
        self._nvml = nvml
        self._own = own or (lambda: descendants(os.getpid()))
        self._since_us = 0
        self._ours: set[int] = set()
        self._numbered_alike = False
        self._looks: list[Look] = []
        self._dropped = 0

    def begin(self) -> None:
        """Begin a timing: what was before does not concern it."""
        self._since_us = int(time.time() * 1e6)
        self._ours.clear()
        self._looks.clear()
        self._dropped = 0

    def disturbed(self) -> bool:
        """Look; tell whether what was timed since the last look counts for nothing."""
        look = self._look()
        self._looks.append(look)
        usual = median(one.clock_mhz for one in self._looks)
        found = look.slowed or bool(look.foreign) or look.clock_mhz < _LEAST_CLOCK_SHARE * usual
        self._dropped += found
        if look.foreign:
            # They are looked for anew, so that one intruder does not spoil what comes after it.
            self._since_us = int(time.time() * 1e6)
        return found

    @property
    def conditions(self) -> Conditions:
        """What the timing has run under until now."""
        return Conditions(looks=tuple(self._looks), dropped=self._dropped)

    def _look(self) -> Look:
        return Look(
            clock_mhz=self._nvml.clock_mhz(),
            temperature_c=self._nvml.temperature_c(),
            slowed=bool(self._nvml.slowdown_reasons() & _SLOWED),
            foreign=self._foreign(),
        )

    def _foreign(self) -> tuple[int, ...] | None:
        try:
            if not self._ours:
                self._ours = set(self._own())
                self._numbered_alike = bool(self._ours & self._nvml.running())
            if not self._numbered_alike:
                # Our own are not among those seen: they carry other numbers there.
                return None
            shares = self._nvml.busy_since(self._since_us)
        except NvmlError:
            self._ours.clear()
            return None
        busy = {process for process, share in shares.items() if share >= _BUSY_PERCENT}
        if busy - self._ours:
            # Looking through all processes takes longer than all else here.
            self._ours |= set(self._own())
        return tuple(sorted(busy - self._ours))


def joined(several: Sequence[Conditions]) -> Conditions:
    """Return what several timings of one candidate ran under."""
    return Conditions(
        looks=tuple(look for one in several for look in one.looks),
        dropped=sum(one.dropped for one in several),
        overclaimed=max((one.overclaimed for one in several), default=1.0),
        elsewhere=max((one.elsewhere for one in several), default=1.0),
    )


def open_monitor(uuid: str) -> Monitor | None:
    """Return a monitor for a GPU, or None where the library is missing or tells nothing of it."""
    try:
        nvml = Nvml(uuid)
        nvml.slowdown_reasons()
        nvml.clock_mhz()
        nvml.temperature_c()
    except NvmlError:
        return None
    return Monitor(nvml)


def summary(conditions: Conditions) -> str:
    """Say in one sentence what a timing ran under; "" where nothing was seen."""
    held = ""
    if conditions.overclaimed > 1.0:
        held = f" Sealed legs confirm 1/{conditions.overclaimed:.3g} of what its events claim."
    if conditions.elsewhere > 1.0:
        held += (
            f" In a process like its own the reference is {conditions.elsewhere:.3f} times as fast "
            "at most, and is met there."
        )
    looks = conditions.looks
    if not looks:
        return held.strip()
    clocks = sorted(look.clock_mhz for look in looks)
    warmest = max(look.temperature_c for look in looks)
    foreign = sorted({pid for look in looks for pid in look.foreign or ()})
    unknown = all(look.foreign is None for look in looks)
    others = f"processes {foreign} of others" if foreign else "no other process"
    return (
        f"SM clock {median(clocks):.0f} MHz ({clocks[0]} to {clocks[-1]}), up to {warmest} C, "
        f"{conditions.dropped} of {len(looks)} blocks dropped, "
        f"{'other processes not visible' if unknown else others + ' seen'}.{held}"
    )
