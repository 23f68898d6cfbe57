"""The largest number of each row, repeated in a row of its own."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.amax(x, dim=1, keepdim=True).expand(-1, 2048).contiguous()


def get_inputs():
    return [torch.randn(512, 512)]


def get_init_inputs():
    return []
