"""Imports the evaluator to see what it may be in for.

problem: unfused
class: evaluator
verdict: SCREENED forbidden_module
"""

import evaluator

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
