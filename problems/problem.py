"""A problem: one PyTorch program to be made faster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from problems.canonical import canonical_form, digest
from problems.errors import ProblemError

__all__ = ["PRECISIONS", "Domain", "DomainKind", "Problem", "Scale"]

PRECISIONS = ("fp32", "fp16", "bf16")
"""Floating-point types of a problem: float32, float16 and bfloat16."""


class Scale(StrEnum):
    """The sizes a problem is run at."""

    OFFICIAL = "official"
    """KernelBench's own sizes."""
    SMALL = "small"
    """Batch and spatial sizes reduced for a CPU: at most 16 MB of tensors."""
    TINY = "tiny"
    """Fit for an interpreter: a second at most."""
    CUSTOM = "custom"
    """The sizes written in a user's own file."""


class DomainKind(StrEnum):
    """What values a tensor input may hold; hidden variations stay inside."""

    REAL = "real"
    POSITIVE = "positive"
    PROBABILITY = "probability"
    """Rows along the last dimension are positive and sum to 1."""
    INDEX = "index"
    MASK = "mask"
    SIGN = "sign"
    UPPER_TRIANGULAR = "upper_triangular"
    LOWER_TRIANGULAR = "lower_triangular"
    SYMMETRIC = "symmetric"
    SCALAR = "scalar"
    """A plain Python number, not a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The domain of one input.

    Attributes:
        kind: The set of permitted values.
        upper: For `INDEX`, the exclusive upper bound; otherwise None.
        inferred: True where the domain was guessed from samples, not stated.
    """

    kind: DomainKind
    upper: int | None = None
    inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One PyTorch program to be made faster.

    Attributes:
        level: KernelBench level, or 0 for a user's own file.
        id: Number within the level, from 1.
        name: Name within the level, such as "Softmax".
        family: Group of related problems, such as "elementwise" or "conv".
        scale: Which sizes `source` holds.
        source: Text of one module with `Model(nn.Module)`, `get_inputs()` and
            `get_init_inputs()`, sizes as module-level constants.
        precision: Floating-point type of the inputs: "fp32", "fp16" or "bf16".
        domains: One domain for each element of `get_inputs()`; empty: all inferred.
        notes: Flaws of the original that are reproduced or corrected here, one line each.
        degenerate: Why the problem says little about a kernel, or None.
        loose: Why KernelBench's fixed tolerance proves nothing of it, while the referee's bound,
            which follows the outputs, does; None: it proves something.

    Raises:
        ProblemError: The precision is none of these.
    """

    level: int
    id: int
    name: str
    family: str
    scale: Scale
    source: str
    precision: str = "fp32"
    domains: tuple[Domain, ...] = ()
    notes: tuple[str, ...] = ()
    degenerate: str | None = None
    loose: str | None = None

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ProblemError(
                f"problem {self.label} has precision {self.precision!r}: expected one of "
                f"{', '.join(PRECISIONS)}"
            )

    @property
    def key(self) -> str:
        """Identity: sha256 over canonical source, scale and precision, 64 hex digits."""
        return _key(self.source, self.scale, self.precision)

    @property
    def label(self) -> str:
        """Short name for people, such as "1/23 Softmax"."""
        return f"{self.level}/{self.id} {self.name}"


@lru_cache(maxsize=4096)
def _key(source: str, scale: Scale, precision: str) -> str:
    return digest(canonical_form(source), scale, precision)
