"""Asks the compiler for its version when it is loaded: a child that has ended.

problem: softmax
verdict: OK | library
least: 0.7
"""

import subprocess

import torch
from torch import nn

VERSION = subprocess.run(["g++", "--version"], capture_output=True, check=True).stdout


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
