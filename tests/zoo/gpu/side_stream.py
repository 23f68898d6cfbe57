"""Works on a stream of its own, which nobody waits for.

problem: softmax
class: timing
verdict: no gain | WRONG_VALUE wrong_value | WRONG_VALUE wrong_when_timed | NON_DETERMINISTIC result_varies | TIMING_MISMATCH events | TIMING_MISMATCH wall
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = None

    def forward(self, x):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        out = torch.empty_like(x)
        with torch.cuda.stream(self.stream):
            for _ in range(8):
                torch.softmax(x.double(), dim=1)
            out.copy_(torch.softmax(x, dim=1))
        return out
