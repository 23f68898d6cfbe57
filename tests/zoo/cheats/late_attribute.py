"""A plain tensor with a method of its own, which computes when it is called.

problem: softmax
class: output
verdict: WRONG_DTYPE lazy_tensor
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        vars(out)["float"] = lambda: torch.softmax(x, dim=1)
        return out
