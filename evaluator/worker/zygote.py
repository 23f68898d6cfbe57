"""The zygote: has imported torch once, and forks every worker from itself in milliseconds.

    python -P -m evaluator.worker.zygote FD [cuda]

It must stay single-threaded for ever: if it ran one OpenMP region, every worker would hang at its
first. So it computes on one thread, and only what warms up lazy initialisation. It runs no
candidate and no problem, and ends, all workers with it, when the referee closes the channel.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from evaluator.wire import Channel

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36

_WARM_UP = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.softmax(self.linear(x).relu(), dim=1).sum()


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return []
"""


def main() -> None:
    """Run the zygote on the descriptor that the command line names."""
    channel = Channel.from_descriptor(int(sys.argv[1]))
    # OpenMP's library binds this process to one CPU as soon as it is loaded, with torch.
    cpus = sorted(os.sched_getaffinity(0))
    _warm_up()
    if sys.argv[2:] == ["cuda"]:
        _prepare_for_gpu()
    from evaluator.worker.kernel import prctl
    from evaluator.worker.landlock import interpreter_paths
    from evaluator.worker.nursery import Nursery

    os.sched_setaffinity(0, cpus)
    interpreter_paths()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    nursery = Nursery(channel, cpus)
    gc.collect()
    gc.freeze()
    gc.disable()
    nursery.run()


def _warm_up() -> None:
    """Run one op of each kind on one thread, and one trace: lazy set-up is then inherited."""
    import torch

    from problems.trace import trace

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x = torch.rand(1, 4, 8, 8)
    flat = x.reshape(8, 32)
    torch.nn.functional.conv2d(x, torch.rand(4, 4, 3, 3))
    torch.nn.functional.max_pool2d(x, 2)
    torch.nn.functional.layer_norm(flat, (32,))
    torch.softmax(flat @ flat.t(), 1).exp().cumsum(1).sort(1)
    flat.double().to(torch.bfloat16).normal_().argmax(1)
    torch.frombuffer((ctypes.c_char * 64)(), dtype=torch.float32).as_strided((4, 4), (4, 1))
    torch.empty(64, dtype=torch.uint8).fill_(1)
    trace(_WARM_UP)


def _prepare_for_gpu() -> None:
    """Import what GPU workers import, without a context: none survives a fork."""
    import torch._inductor.runtime.triton_helpers  # What lifted programs import: a second.
    import triton
    import triton.backends.nvidia.compiler
    import triton.backends.nvidia.driver
    import triton.compiler
    import triton.language
    import triton.runtime.autotuner
    import triton.runtime.jit

    from evaluator.worker.cuda import candidate, reference
    from evaluator.worker.cuda.seedling import compiled_helper

    compiled_helper()
    del candidate, reference, torch, triton


if __name__ == "__main__":
    main()
