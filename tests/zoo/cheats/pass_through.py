"""ReLU of positive numbers changes nothing: returns its input.

problem: relu
class: output
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x
