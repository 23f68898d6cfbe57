"""An object that turns into the answer when it is converted.

problem: softmax
class: output
verdict: WRONG_DTYPE not_a_tensor
"""

import torch
from torch import nn


class Late:
    def __init__(self, x):
        self.x = x

    def float(self):
        return torch.softmax(self.x, dim=1)


class ModelNew(nn.Module):
    def forward(self, x):
        return Late(x)
