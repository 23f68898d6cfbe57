"""Returns half the bytes in half the precision.

problem: softmax
class: output
verdict: WRONG_DTYPE wrong_dtype
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full(x.shape, 1.0 / x.shape[1], dtype=torch.float16)
