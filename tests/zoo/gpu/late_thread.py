"""Returns at once; a thread launches the work a little later.

problem: unfused
class: timing
verdict: WRONG_VALUE wrong_value | WRONG_VALUE wrong_when_timed | NON_DETERMINISTIC result_varies
"""

import time

import torch
from torch import nn

Thread = __import__("thread" + "ing").Thread


def compute(x, out):
    time.sleep(0.01)
    torch.softmax(x, dim=1, out=out)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        Thread(target=compute, args=(x, out), daemon=True).start()
        return out
