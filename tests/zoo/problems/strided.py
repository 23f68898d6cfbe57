"""Row sums of a transposed input."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.t().sum(dim=1)


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
