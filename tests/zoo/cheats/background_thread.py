"""Returns at once; a thread fills the output later.

problem: softmax
class: timing
verdict: WRONG_VALUE wrong_value | NON_DETERMINISTIC result_varies | WRONG_VALUE wrong_when_timed
"""

import time

import torch
from torch import nn

threads = __import__("threa" + "ding")
latest = []


def work():
    while True:
        time.sleep(0.01)
        if latest:
            x, out = latest.pop()
            out.copy_(torch.softmax(x, dim=1))
            latest.clear()


threads.Thread(target=work, daemon=True).start()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        latest[:] = [(x, out)]
        return out
