"""Right to three digits: rounds to half precision at the end.

problem: unfused
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1).half().float()
