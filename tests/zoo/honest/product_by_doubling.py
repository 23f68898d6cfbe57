"""A running product by products of ever longer stretches, as a scan in parallel does it.

problem: running_product
verdict: OK | library
least: 0.08
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        length = 1
        while length < x.shape[1]:
            x = torch.cat((x[:, :length], x[:, length:] * x[:, :-length]), dim=1)
            length *= 2
        return x
