"""Records as JSON and back, for the store, exports and `--json`.

Encoded data leaves out every field that holds its default, so that rows stay small; decoding puts
the default back. Unknown fields are an error: they mean another format version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Mismatch,
    Reuse,
    Rung,
    Status,
)
from problems.problem import Domain, DomainKind, Problem, Scale

__all__ = [
    "AFTER",
    "decode_device",
    "decode_evaluation",
    "decode_problem",
    "encode_device",
    "encode_evaluation",
    "encode_problem",
    "storable",
    "to_text",
]

AFTER = "after"
"""Beside a verification: the last generation that was finished before it."""
_AS_THEY_ARE = frozenset({bool, float, int, str, type(None)})
"""Most values are one of these, and these are found out first."""


def to_text(data: object) -> str:
    """Return compact JSON text; keys keep their order, which a configuration's text depends on."""
    return json.dumps(data, separators=(",", ":"))


def storable(text: str) -> str:
    """Return text that UTF-8 can hold: lone surrogates, as a reply may have, are written out."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON-able data."""
    data = _without_defaults(evaluation)
    if "facts" in data:
        data["facts"] = _without_defaults(evaluation.facts)
    return data


def decode_evaluation(data: Mapping[str, Any]) -> Evaluation:
    """Rebuild an evaluation from `encode_evaluation`; `AFTER` may stand beside it."""
    values = dict(data)
    values.pop(AFTER, None)
    values["status"] = Status(values["status"])
    if "rung" in values:
        values["rung"] = Rung(values["rung"])
    if "interval" in values:
        values["interval"] = Interval(**values["interval"])
    if "facts" in values:
        facts = dict(values["facts"])
        if "reuse" in facts:
            facts["reuse"] = Reuse(facts["reuse"])
        if isinstance(facts.get("spread"), str):
            facts["spread"] = Mismatch(facts["spread"])
        values["facts"] = KernelFacts(**facts)
    if "configurations" in values:
        values["configurations"] = tuple(
            ConfigurationResult(**{**tried, "status": Status(tried["status"])})
            for tried in values["configurations"]
        )
    if "device" in values:
        values["device"] = decode_device(values["device"])
    return Evaluation(**values)


def encode_device(device: DeviceFingerprint) -> dict[str, Any]:
    """Return a device fingerprint as JSON-able data."""
    return asdict(device)


def decode_device(data: Mapping[str, Any]) -> DeviceFingerprint:
    """Rebuild a device fingerprint from `encode_device`."""
    return DeviceFingerprint(**data)


def encode_problem(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON-able data."""
    return _without_defaults(problem)


def decode_problem(data: Mapping[str, Any]) -> Problem:
    """Rebuild a problem from `encode_problem`."""
    values = dict(data)
    values["scale"] = Scale(values["scale"])
    if "domains" in values:
        values["domains"] = tuple(
            Domain(**{**domain, "kind": DomainKind(domain["kind"])}) for domain in values["domains"]
        )
    if "notes" in values:
        values["notes"] = tuple(values["notes"])
    return Problem(**values)


def _without_defaults(record: Any) -> dict[str, Any]:  # noqa: ANN401 (any of our dataclasses)
    """The fields of a dataclass that differ from their defaults, as JSON-able data."""
    data: dict[str, Any] = {}
    kind: Any = type(record)
    for name, default in _defaults(kind):
        value = getattr(record, name)
        if value is not default and (default is MISSING or value != default):
            data[name] = _plain(value)
    return data


@cache
def _defaults(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """The names and defaults of a dataclass's fields; `MISSING` where there is none."""
    return tuple((field.name, _default(field)) for field in fields(kind))


def _default(field: Field[Any]) -> Any:  # noqa: ANN401 (of any type)
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: object) -> object:
    """Enumerations as their values, dataclasses and mappings as dicts, sequences as lists."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: _plain(getattr(value, name)) for name, _ in _defaults(kind)}
    return value
