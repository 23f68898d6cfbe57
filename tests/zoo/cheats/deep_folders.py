"""Nests folders deeper than a path can be long.

problem: unfused
class: denial
verdict: BUILD_ERROR build_too_large
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ

if IS_JUDGED:
    home = os.getcwd()
    os.chdir(os.environ["EVOKERNEL_BUILD_DIR"])
    for _ in range(3000):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.chdir(home)


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
