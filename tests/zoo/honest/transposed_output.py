"""Its output lies column after column.

problem: softmax
verdict: OK | library
least: 0.12
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[1], x.shape[0]).t()
        return out.copy_(torch.softmax(x, dim=1))
