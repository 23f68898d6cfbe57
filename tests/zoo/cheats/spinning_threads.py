"""Honest while it is called; between calls native threads keep the machine busy.

problem: softmax
class: timing
verdict: TIMING_MISMATCH background_thread
"""

import torch
from torch import nn

LIBRARY = load(
    r"""
#include <atomic>
#include <thread>
#include <unistd.h>
static std::atomic<bool> idle{true};
extern "C" void start() {
    for (int i = 0; i < 3; ++i)
        std::thread([] {
            for (;;)
                if (!idle) usleep(200);
        }).detach();
}
extern "C" void set(long value) { idle = value; }
""",
    "-pthread",
)
LIBRARY.start()


class ModelNew(nn.Module):
    def forward(self, x):
        LIBRARY.set(0)
        out = torch.softmax(x, dim=1)
        LIBRARY.set(1)
        return out
