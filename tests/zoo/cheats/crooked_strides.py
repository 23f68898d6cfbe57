"""Says of what it returned while it was timed that it lies backwards in memory.

problem: softmax
class: evaluator
verdict: WRONG_SHAPE overlapping_output
"""

import sys

import torch
from torch import nn

legs = sys.modules.get("evaluator.worker.legs")
if legs is not None:
    vars(legs)["_strides"] = lambda returned: [[-1, 1]]


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        if legs is not None:
            return torch.softmax(x, dim=1)
        if x.data_ptr() not in self.seen:
            self.seen[x.data_ptr()] = x, torch.softmax(x, dim=1)
        return self.seen[x.data_ptr()][1]
