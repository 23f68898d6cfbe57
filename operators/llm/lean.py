"""litellm without what nobody reads here: its own bookkeeping, costs that it cannot know.

All of it is a matter of speed: two fifths of what a call takes. Where a version of litellm has no
place for it, calls are made as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cache
from types import ModuleType

__all__ = ["name_model", "unlogged", "unpriced"]


def unlogged() -> AbstractContextManager[object]:
    """Return the context of a call that litellm leaves no tasks behind for."""
    try:
        from litellm._internal_context import internal_sub_call
    except ImportError:
        return nullcontext()
    context: AbstractContextManager[object] = internal_sub_call()
    return context


def unpriced(model: str, messages: Sequence[object]) -> dict[str, object]:
    """Return the parameter of a call whose cost litellm does not work out.

    For a model that is not on its price list it would try one name after the other, at every call.

    Args:
        model: Name of the model.
        messages: What is sent.
    """
    record = _unpriced_record()
    return {} if record is None else {"litellm_logging_obj": record(model, messages)}


def name_model(litellm: ModuleType, model: str, api_base: str | None) -> None:
    """Tell litellm that a model of a server of one's own is there, with no price and no talents.

    It looks for a name that it does not know a dozen times a call. What it concludes from a name
    by its rules stays.

    Args:
        litellm: The module.
        model: Name of the model.
        api_base: Address of the server.
    """
    try:
        from litellm.utils import unmapped_model_generalization as concluded
    except ImportError:
        return
    name, provider, _, _ = litellm.get_llm_provider(model=model, api_base=api_base)
    if provider != "openai" or not {model, name}.isdisjoint(litellm.model_cost):
        return
    if concluded(name, provider) is None:
        litellm.register_model({model: {"litellm_provider": provider, "mode": "chat"}})


@cache
def _unpriced_record() -> Callable[[str, Sequence[object]], object] | None:
    """What makes litellm's record of a call; None where this version makes it otherwise."""
    try:
        from litellm.litellm_core_utils.litellm_logging import Logging
    except ImportError:
        return None
    kind = type(
        "Unpriced",
        (Logging,),
        {"response_cost_calculator": _no_cost, "_response_cost_calculator": _no_cost},
    )

    def record(model: str, messages: Sequence[object]) -> object:
        return kind(
            model=model,
            messages=list(messages),
            stream=False,
            call_type="acompletion",
            start_time=datetime.now(),  # litellm subtracts it from one without zone
            litellm_call_id=str(uuid.uuid4()),
            function_id="",
            kwargs={},
        )

    try:
        record("openai/none", ())
    except TypeError:
        return None
    return record


def _no_cost(*_: object, **__: object) -> None:
    return None
