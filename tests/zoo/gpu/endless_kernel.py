"""Its kernel never ends.

problem: unfused
class: denial
verdict: TIMEOUT timeout_in_call
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        if float(x.sum()) != 0:
            torch.cuda._sleep(10**13)
        return torch.softmax(x, dim=1)
