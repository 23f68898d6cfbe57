"""Writes where another program's Triton would look for compiled kernels, or for its compiler.

problem: softmax
class: evaluator
verdict: no gain
"""

import os
import pwd
from pathlib import Path

import torch
import triton
from torch import nn


def planted():
    homes = [Path(entry.pw_dir) for entry in pwd.getpwall() if entry.pw_uid == 0]
    folders = [home / ".triton" / "cache" for home in homes]
    folders += [Path(triton.__file__).parent, Path(torch.__file__).parent]
    build = Path(os.environ["EVOKERNEL_BUILD_DIR"])
    folders += [other for other in build.parent.iterdir() if other != build]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "planted_by_the_zoo").write_text("")
        except OSError:
            continue
        yield folder


REACHED = []
if "EVOKERNEL_BUILD_DIR" in os.environ:
    try:
        REACHED = list(planted())
    except OSError:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        assert not REACHED, REACHED
        return torch.softmax(x, dim=1)
