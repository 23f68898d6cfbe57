"""One number, shown as a whole tensor.

problem: softmax
class: output
verdict: WRONG_SHAPE overlapping_output
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((1, 1), 1.0 / x.shape[1], device=x.device).expand(x.shape)
