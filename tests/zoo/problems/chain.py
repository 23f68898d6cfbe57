"""A product of three matrices, in the slow order."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b, v):
        return (a @ b) @ v


def get_inputs():
    return [torch.randn(256, 256), torch.randn(256, 256), torch.randn(256, 8)]


def get_init_inputs():
    return []
