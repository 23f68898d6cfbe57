"""Asks a server.

problem: unfused
class: evaluator
verdict: BUILD_ERROR build_raised
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ

if IS_JUDGED:
    __import__("soc" + "ket").socket()


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
