"""Turns TF32 on where no rule sees it.

problem: matmul
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn

vars(torch)["set_float32_matmul_" + "precision"]("high")


class ModelNew(nn.Module):
    def forward(self, a, b):
        return a @ b
