"""Rows of a table, by indexing.

problem: lookup
verdict: OK | library
least: 0.4
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4096, 128)

    def forward(self, rows):
        return self.table.weight[rows]
