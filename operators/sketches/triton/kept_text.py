"""Text of what a program keeps of its weights from call to call."""

from __future__ import annotations

__all__ = ["KEPT_TEXT"]

KEPT_TEXT = '''
KEPT = {}


def kept(place, weight, make):
    """Return what `make` makes of a tensor; of a parameter it is kept until that changes.

    Torch counts what is written to a parameter, but not what is written through its `data`.
    """
    if not isinstance(weight, torch.nn.Parameter):
        return make(weight)
    state = (weight.data_ptr(), weight._version)
    known, its_state, made = KEPT.get(place, (None, None, None))
    if known is not weight or its_state != state:
        made = make(weight)
        KEPT[place] = (weight, state, made)
    return made
'''
"""`kept`: inference packs weights once. Inputs and buffers may change with each call."""
