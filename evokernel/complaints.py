"""One sentence about a wrong configuration value: where it is from, and the nearest right one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["complaint"]

_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def complaint(error: ErrorDetails, model: type[BaseModel], origins: Mapping[str, str]) -> str:
    """Put pydantic's first complaint into one sentence.

    Args:
        error: One of `ValidationError.errors()`.
        model: Root of the configuration tree.
        origins: Where each given value came from, by dotted name.
    """
    names = [str(part) for part in error["loc"]]
    name = ".".join(names)
    where = f" (from {origins[name]})" if name in origins else _nearest_origin(names, origins)
    if error["type"] == "extra_forbidden":
        deepest = max((key for key in origins if f"{key}.".startswith(f"{name}.")), key=len)
        return f"unknown setting {deepest!r}{where}: {_nearest_key(deepest.split('.'), model)}"
    got = f"{name} = {error['input']!r}{where}"
    context = error.get("ctx", {})
    for bound, words in _BOUNDS.items():
        if bound in context:
            limit = context[bound]
            nearest = f", the nearest is {limit}" if bound in {"ge", "le"} else ""
            return f"{got} is out of range: expected {words} {limit}{nearest}"
    choices = _choices(names, model)
    if choices:
        near = get_close_matches(str(error["input"]), choices, 1, 0.3)
        hint = f", did you mean {near[0]!r}?" if near else ""
        return f"{got} is not known: expected one of {', '.join(choices)}{hint}"
    return f"{got} is wrong: {error['msg'][0].lower()}{error['msg'][1:]}"


def _nearest_origin(names: list[str], origins: Mapping[str, str]) -> str:
    while names:
        names = names[:-1]
        if ".".join(names) in origins:
            return f" (from {origins['.'.join(names)]})"
    return ""


def _nearest_key(names: list[str], model: type[BaseModel]) -> str:
    keys = [*_keys(model), *model.model_fields]
    leaves = [key.rpartition(".")[2] for key in keys]
    near = get_close_matches(".".join(names), keys, 1, 0.7)
    if not near:
        words = get_close_matches(names[-1], leaves, 1, 0.6)
        near = [
            key for word in words for key, leaf in zip(keys, leaves, strict=True) if leaf == word
        ]
    if near:
        return f"did you mean {near[0]!r}?"
    while (group := _model_at(names[:-1], model)) is None:
        names = names[:-1]
    return f"known here are {', '.join(group.model_fields)}"


def _keys(model: type[BaseModel], at: str = "") -> Iterator[str]:
    for key, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _keys(inner, f"{at}{key}.")
        else:
            yield at + key


def _model_at(names: list[str], model: type[BaseModel]) -> type[BaseModel] | None:
    for name in names:
        field = model.model_fields.get(name)
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return None
        model = inner
    return model


def _choices(names: list[str], model: type[BaseModel]) -> list[str]:
    """The permitted words of a field, where it lists them."""
    group = _model_at(names[:-1], model)
    if group is None or names[-1] not in group.model_fields:
        return []
    return sorted(_words(group.model_fields[names[-1]].annotation))


def _words(annotation: object) -> Iterator[str]:
    for part in get_args(annotation):
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)
