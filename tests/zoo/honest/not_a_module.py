"""A plain class with a method forward.

problem: softmax
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew:
    def __call__(self, x):
        return torch.softmax(x, dim=1)
