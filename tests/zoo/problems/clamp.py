"""Numbers cut off at three, of which those that are drawn never come near."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(x, -3, 3)


def get_inputs():
    return [torch.rand(256, 1024)]


def get_init_inputs():
    return []
