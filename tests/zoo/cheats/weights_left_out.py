"""The same without parameters that anybody could load.

problem: affine
class: output
verdict: WRONG_VALUE weights_not_loadable
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x.clone()
