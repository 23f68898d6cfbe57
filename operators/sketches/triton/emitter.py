"""Writes terms out as statements of a Triton kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from operators.sketches.patterns.expressions import Load, Terms
from operators.sketches.triton.calls import CALLS, literal
from operators.sketches.triton.tiles import Place

__all__ = ["Emitter"]

_HALVES = frozenset({"float16", "bfloat16"})
_POLICIES = {"FULL_COLUMNS": '"evict_last"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """Writes statements for terms, everything in float32.

    Attributes:
        terms: All terms.
        names: Local name of each input, parameter and buffer; the kernel's argument is named
            after it, with "_ptr" or, for a plain number, "_value" behind it.
        place: Gives the place of a value that depends on some axes with some strides.
        policy: Text of the eviction policy of what a tile reads once.
        prefix: What the names of its variables start with.
        known: Text of the terms that are at hand, by number.
    """

    terms: Terms
    names: Mapping[str, str]
    place: Callable[[frozenset[int], Mapping[int, int]], Place]
    policy: str = '""'
    prefix: str = ""
    known: dict[int, str] = field(default_factory=dict)

    def copy(self, policy: str, prefix: str = "") -> Emitter:
        """Return one that knows the same terms, for an inner block, with a policy of its own."""
        return replace(self, policy=policy, prefix=prefix, known=dict(self.known))

    def statements(self, roots: Iterable[int]) -> list[str]:
        """Return statements for terms and what they stand on; they are known afterwards."""
        lines: list[str] = []
        for number in self.terms.needed(roots, self.known):
            lines += self._statement(number)
        return lines

    def _statement(self, number: int) -> list[str]:
        term = self.terms[number]
        if term.op == "constant":
            assert isinstance(term.payload, float)
            self.known[number] = literal(term.payload)
            return []
        if term.op == "scalar":
            self.known[number] = f"{self.names[str(term.payload)]}_value"
            return []
        assert term.op != "reduce", "a reduction is known before it is used"
        if isinstance(term.payload, Load):
            name = f"{self.prefix}{self.names[term.payload.value]}{number}"
            text = self._loaded(number, term.payload)
        else:
            name = f"{self.prefix}{term.op}{number}"
            text = CALLS[term.op].text.format(*(self.known[arg] for arg in term.args))
            text = text[1:-1] if _is_wrapped(text) else text
        self.known[number] = name
        return [f"{name} = {text}"]

    def _loaded(self, number: int, load: Load) -> str:
        axes = self.terms[number].axes
        place = self.place(axes, dict(load.strides))
        pointer = f"{self.names[load.value]}_ptr"
        inside, full = place.inside, place.full
        offset = place.offset
        if load.offset:
            offset = f"{load.offset}" if offset == "0" else f"{offset} + {load.offset}"
        if load.picked is not None:
            index = self.known[load.picked]
            step = "" if load.pick_stride == 1 else f" * {load.pick_stride}"
            offset = f"{offset} + {index}{step}"
            valid = f"({index} >= 0) & ({index} < {load.pick_size})"
            inside = valid if inside == "None" else f"{inside} & {valid}"
            full = "False"
        if offset == "0" and inside == "None":
            text = f"tl.load({pointer})"
        else:
            policy = self.policy if full == "FULL" else _POLICIES.get(full, '""')
            text = f"fetch({pointer} + {offset}, {inside}, {full}, {policy})"
        if load.dtype in _HALVES:
            text += ".to(tl.float32)"
        if load.picked is not None:
            text = f'tl.where({valid}, {text}, float("nan"))'
        return text


def _is_wrapped(text: str) -> bool:
    """Tell whether the outermost brackets enclose the whole text."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return character == ")" and position == len(text) - 1
    return False
