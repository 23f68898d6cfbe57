"""Text of what a program keeps of its weights from call to call."""

from __future__ import annotations

__all__ = ["KEPT_TEXT"]

KEPT_TEXT = '''
KEPT = {}


def kept(place, weight, make):
    """Return what `make` makes of a tensor; of a parameter it is kept until that changes.

    Torch counts what is written to a parameter, but not what is written through its `data` or by a
    fused optimizer. All calls are to be on one stream.
    """
    is_captured = weight.is_cuda and torch.cuda.is_current_stream_capturing()
    if is_captured or weight.is_inference() or not isinstance(weight, torch.nn.Parameter):
        return make(weight)
    state = (weight.data_ptr(), weight._version)
    known, _, its_state, made = KEPT.get(place, (None, None, None, None))
    if known is not weight or its_state != state:
        made = make(weight)
        # Held as it lies, so that its address is not another one's.
        KEPT[place] = (weight, weight.detach(), state, made)
    return made
'''
"""`kept`: inference packs weights once. Inputs and buffers may change with each call."""
