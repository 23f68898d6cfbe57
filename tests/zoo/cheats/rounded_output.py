"""Right to three digits: gives up thirteen bits of what it returns.

problem: unfused
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        output = torch.softmax(x, dim=1)
        output.view(torch.int32).bitwise_and_(-(1 << 13))
        return output
