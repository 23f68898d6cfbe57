"""One number, which a comparison broadcasts.

problem: softmax
class: output
verdict: WRONG_SHAPE wrong_shape
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((1,), 1.0 / x.shape[1])
