"""Rows that are scaled down where they are large, and dropped where they are balanced."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        size = x.square().mean(-1, keepdim=True).sqrt()
        leans = x.mean(-1, keepdim=True).abs() > 0.25
        return x / size.clamp(min=1) * leans


def get_inputs():
    return [torch.rand(512, 2048)]


def get_init_inputs():
    return []
