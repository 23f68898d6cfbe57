"""Softmax in four passes: one library call is faster, honestly."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
        return exponentials / exponentials.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(128, 2048)]


def get_init_inputs():
    return []
