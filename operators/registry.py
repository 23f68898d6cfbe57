"""Which operators there are, by name; a dotted path names one of somebody else's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType

from operators.compiler import COMPILER
from operators.llm.operators import CROSSOVER, MUTATE, REPAIR, TRANSLATE
from operators.operator import Operator
from operators.rewrite import REWRITE
from operators.seeds import SEED
from operators.settings import Setting
from operators.sketch import SketchOperator
from operators.splice import SPLICE
from operators.tune import TUNE
from problems.errors import OperatorError

__all__ = ["OPERATORS", "load_operator"]

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "seed": SEED,
        "sketch": SketchOperator(),
        "compiler": COMPILER,
        "tune": TUNE,
        "splice": SPLICE,
        "rewrite": REWRITE,
        "llm.translate": TRANSLATE,
        "llm.mutate": MUTATE,
        "llm.crossover": CROSSOVER,
        "llm.repair": REPAIR,
    }
)


def load_operator(name: str) -> Operator:
    """Return an operator by its name or its dotted path.

    Args:
        name: A key of `OPERATORS`, or "package.module:NAME" for an object of one's own that
            follows the protocol `operators.Operator`; where it has `settings`, these are the
            only ones that a configuration may give it.

    Raises:
        OperatorError: There is no such operator, or the object does not follow the protocol.
    """
    if name in OPERATORS:
        return OPERATORS[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        near = get_close_matches(name, OPERATORS, 1, 0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OperatorError(
            f"there is no operator {name!r}: {hint}There are {', '.join(OPERATORS)}, and "
            "'package.module:NAME' for one of your own"
        )
    try:
        found = getattr(import_module(module_name), attribute)
    except (ImportError, ValueError) as error:
        raise OperatorError(f"the operator {name!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise OperatorError(
            f"the module {module_name!r} of the operator {name!r} has no attribute {attribute!r}"
        ) from error
    return _checked(name, found)


def _checked(name: str, found: object) -> Operator:
    """The object, where it follows the protocol.

    Looked at by hand and not by `isinstance` with a runtime protocol, so that the sentence can say
    what is wrong.
    """
    where = f"the operator {name!r}"
    if isinstance(found, type):
        raise OperatorError(f"{where} is a class: name an instance of it")
    if not isinstance(getattr(found, "name", None), str):
        raise OperatorError(f"{where} lacks a 'name', expected a text")
    parents = getattr(found, "num_parents", None)
    if not _is_range(parents):
        raise OperatorError(
            f"{where} has num_parents {parents!r}, expected (least, most) with 0 <= least <= most"
        )
    if not isinstance(getattr(found, "from_failures", None), bool):
        raise OperatorError(f"{where} lacks 'from_failures', expected True or False")
    settings = getattr(found, "settings", ())
    if not isinstance(settings, tuple) or not all(isinstance(one, Setting) for one in settings):
        raise OperatorError(f"{where} has settings {settings!r}, expected a tuple of Setting")
    if not callable(getattr(found, "applies", None)):
        raise OperatorError(f"{where} lacks a method 'applies'")
    if not inspect.iscoroutinefunction(getattr(found, "propose", None)):
        raise OperatorError(f"{where} lacks a coroutine method 'propose' (async def)")
    return found  # type: ignore[return-value] # its parts were checked one by one


def _is_range(parents: object) -> bool:
    if not isinstance(parents, tuple) or len(parents) != 2:
        return False
    least, most = parents
    return isinstance(least, int) and isinstance(most, int) and 0 <= least <= most
