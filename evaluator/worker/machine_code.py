"""Facts about compiled kernels, read from their machine code (x86-64).

What counts are the innermost loops: ranges closed by a backward jump with no other such range
inside. Their vector loads and stores tell how many bytes one iteration handles, and how wide.
Covered: GCC's and Clang's code for loops, AVX-512, AVX and SSE. Not covered: how often a loop
runs; of several kernels in one library, the widest loop speaks for all.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

__all__ = ["MachineCode", "disassemble", "examine"]

_TIMEOUT_S = 20
_MIN_TILE_BYTES = 256
_REGISTER_BYTES = {"z": 64, "y": 32, "x": 16}
_FUNCTION = re.compile(r"^[0-9a-f]+ <")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(?:\{\w+\} )?(?:bnd |lock |rep\w* )*(\S+)\s*(.*)$")
_TARGET = re.compile(r"^([0-9a-f]+)\b")
_REGISTER = re.compile(r"%([xyz])mm")
_MEMORY = re.compile(r"\(%(\w+)")
_STACK = re.compile(r"^\$0x([0-9a-f]+),%rsp$")
_BSS = re.compile(r"^\s*\d+ \.bss\s+([0-9a-f]+)")
_SCALAR_BYTES = 4
_NARROW_BYTES = 4
_SCALAR = re.compile(r"^(?!vp?broadcast).*(?:ss|sd)$|^v?mov[dq]$")
_ADDRESS_ONLY = frozenset({"lea", "prefetchnta", "prefetcht0", "prefetcht1", "prefetcht2", "nop"})
_BROADCAST_BYTES = {"vbroadcastss": 4, "vbroadcastsd": 8, "vpbroadcastd": 4, "vpbroadcastq": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """What the machine code of a library shows.

    Attributes:
        vector_bits: Width of the registers that most vector instructions of inner loops use, in
            bits; 0: scalar.
        work: Bytes that one iteration of the inner loop that moves most reads and writes, or
            None where no loop moves any.
        vector_loops: Inner loops that move vectors of that width.
        tile_bytes: The largest buffer that a function keeps on the stack, or the library in
            static memory, in bytes.
    """

    vector_bits: int
    work: int | None
    vector_loops: int
    tile_bytes: int

    @property
    def reuses_cache(self) -> bool:
        """Whether data is swept more than once, or kept in a tile."""
        return self.vector_loops >= 2 or self.tile_bytes > _MIN_TILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """An innermost loop: bytes moved per iteration, by register width in bytes (4: scalar)."""

    moved: Counter[int]

    @property
    def vector_bytes(self) -> int:
        return sum(count for width, count in self.moved.items() if width > _SCALAR_BYTES)


def disassemble(path: str) -> str | None:
    """Return a library's headers and machine code as text; None where no objdump is there."""
    command = ["objdump", "-h", "-d", "-w", "--no-show-raw-insn", path]
    try:
        result = subprocess.run(  # noqa: S603 - a fixed command
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout


def examine(texts: Iterable[str]) -> MachineCode:
    """Read the facts from the disassembly of one or more libraries."""
    loops: list[_Loop] = []
    tile = 0
    for text in texts:
        found, largest = _scan(text)
        loops += found
        tile = max(tile, largest)
    moved: Counter[int] = Counter()
    for loop in loops:
        moved.update(loop.moved)
    scalar = moved.pop(_SCALAR_BYTES, 0)
    if not moved:
        work = max((loop.moved[_SCALAR_BYTES] for loop in loops), default=0) if scalar else 0
        return MachineCode(vector_bits=0, work=work or None, vector_loops=0, tile_bytes=tile)
    width = max(moved, key=lambda key: (moved[key], key))
    main = [loop.vector_bytes for loop in loops if loop.moved[width]]
    return MachineCode(
        vector_bits=8 * width, work=max(main), vector_loops=len(main), tile_bytes=tile
    )


def _scan(text: str) -> tuple[list[_Loop], int]:
    """Return the innermost loops of a disassembly and its largest buffer."""
    loops: list[_Loop] = []
    function: list[tuple[int, str, str]] = []
    tile = 0
    for line in text.splitlines():
        if match := _INSTRUCTION.match(line):
            address, name, operands = match.groups()
            function.append((int(address, 16), name, operands.partition("#")[0].strip()))
        elif _FUNCTION.match(line):
            loops += _innermost(function)
            tile = max(tile, _stack_bytes(function))
            function = []
        elif match := _BSS.match(line):
            tile = max(tile, int(match.group(1), 16))
    loops += _innermost(function)
    return loops, max(tile, _stack_bytes(function))


def _innermost(function: Sequence[tuple[int, str, str]]) -> list[_Loop]:
    """Return the loops without a loop inside.

    A loop ends in a conditional jump; unconditional ones come back from code moved out of the way.
    """
    ranges = set()
    for address, name, operands in function:
        target = _TARGET.match(operands) if name.startswith("j") and name != "jmp" else None
        if target and function[0][0] <= int(target.group(1), 16) <= address:
            ranges.add((int(target.group(1), 16), address))
    inner = [
        (start, end)
        for start, end in ranges
        if not any((s, e) != (start, end) and start <= s and e <= end for s, e in ranges)
    ]
    own = {"rip", "rsp"}
    if any(name == "mov" and operands == "%rsp,%rbp" for _, name, operands in function):
        own.add("rbp")
    return [
        _read_loop([row for row in function if start <= row[0] <= end], own)
        for start, end in sorted(inner)
    ]


def _read_loop(rows: Iterable[tuple[int, str, str]], own: Collection[str]) -> _Loop:
    """Count what a loop moves, other than constants and spilled registers (`own` addresses)."""
    moved: Counter[int] = Counter()
    for _, name, operands in rows:
        registers = [_REGISTER_BYTES[kind] for kind in _REGISTER.findall(operands)]
        memory = _MEMORY.search(operands)
        if not registers or memory is None or memory.group(1) in own or name in _ADDRESS_ONLY:
            continue
        if _SCALAR.search(name):
            moved[_SCALAR_BYTES] += 8 if name.endswith(("sd", "q")) else 4
        else:
            narrow = _NARROW_BYTES if "{1to" in operands else _BROADCAST_BYTES.get(name)
            moved[max(registers)] += max(registers) if narrow is None else narrow
    return _Loop(moved=moved)


def _stack_bytes(function: Sequence[tuple[int, str, str]]) -> int:
    """Return the largest frame of a function that uses vectors."""
    frame = 0
    for _, name, operands in function:
        if name.startswith("sub") and (match := _STACK.match(operands)):
            frame = max(frame, int(match.group(1), 16))
    uses_vectors = any(_REGISTER.search(operands) for _, _, operands in function)
    return frame if uses_vectors and frame < 1 << 31 else 0
