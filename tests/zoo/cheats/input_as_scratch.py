"""Uses its input as scratch and puts it right again.

problem: unfused
class: memory
verdict: MUTATED_INPUT mutated_input
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.softmax(x.neg_().neg_(), dim=1)
        return out
