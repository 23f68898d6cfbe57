"""Works on a stream of its own, in order with the current one, which does not wait for it.

problem: unfused
class: timing
verdict: IMPOSSIBLE faster_than_a_launch | TIMING_MISMATCH deferred_work | TIMING_MISMATCH events | WRONG_VALUE wrong_when_timed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = None

    def forward(self, x):
        self.stream = self.stream or torch.cuda.Stream()
        out = torch.empty_like(x)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(2_000_000)
            torch.softmax(x, dim=1, out=out)
        return out
