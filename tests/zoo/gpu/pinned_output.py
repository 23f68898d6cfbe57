"""Returns the host's memory, which the device would write to later.

problem: softmax
class: output
verdict: WRONG_DTYPE not_a_dense_tensor
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, pin_memory=True)
        out.copy_(torch.softmax(x, dim=1), non_blocking=True)
        return out
