"""The static rules: each has its reason code, and honest code passes."""

from __future__ import annotations

import pytest

from evaluator.referee.screen import screen
from tests.evaluator.referee_cases import FOLDER, source_of

MODEL = "\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"

BROKEN_RULES = {
    "def f(:": "syntax_error",
    "x = 1": "no_model_new",
    "import threading" + MODEL: "background_thread",
    "from concurrent.futures import ThreadPoolExecutor" + MODEL: "background_thread",
    "import socket" + MODEL: "forbidden_module",
    "import torch.multiprocessing as mp" + MODEL: "forbidden_module",
    "from evaluator.wire import Channel" + MODEL: "forbidden_module",
    "import gc" + MODEL: "forbidden_module",
    "import time\ntime.perf_counter = None" + MODEL: "patched_module",
    "import torch\ntorch.Tensor.sum = None" + MODEL: "patched_module",
    "import torch\nsetattr(torch, 'rand', None)" + MODEL: "patched_module",
    "import torch\ntorch.backends.mkldnn.enabled = False" + MODEL: "global_state",
    "import torch\ntorch.set_flush_denormal(True)" + MODEL: "global_state",
    "import torch\ntorch.set_num_threads(9)" + MODEL: "thread_setting",
    "import sys\nsys._getframe(1)" + MODEL: "frame_access",
    "import os\nos._exit(0)" + MODEL: "early_exit",
    "import os\nos.fork()" + MODEL: "background_process",
    "class ModelNew(Model):\n    pass": "fallback_to_reference",
    "class L(torch.Tensor):\n    pass" + MODEL: "lazy_tensor",
    "class L:\n    def __torch_dispatch__(self): ..." + MODEL: "lazy_tensor",
    "x = 1\n" * 300_000 + MODEL: "source_too_large",
    """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        with contextlib.suppress(Exception):
            return run(x)
        return torch.relu(x)
""": "fallback_to_reference",
}


@pytest.mark.parametrize(("source", "reason"), BROKEN_RULES.items(), ids=BROKEN_RULES.values())
def test_a_broken_rule_has_its_reason(source: str, reason: str) -> None:
    finding = screen(source)
    assert finding is not None
    assert finding.reason == reason
    assert finding.log


@pytest.mark.parametrize("path", sorted((FOLDER / "honest").glob("*.py")), ids=lambda p: p.stem)
def test_honest_kernels_pass(path: object) -> None:
    assert screen(source_of(f"honest/{getattr(path, 'stem', '')}")) is None


def test_a_guarded_dispatch_and_a_raising_handler_pass() -> None:
    source = """
import torch
ModelNew = None
class ModelNew(torch.nn.Module):
    def forward(self, x):
        if not x.is_contiguous():
            x = x.contiguous()
        try:
            return run(x)
        except OSError as error:
            raise RuntimeError("no kernel: " + str(error)) from error
"""
    assert screen(source) is None


def test_hostile_syntax_is_a_finding() -> None:
    assert screen("(" * 5000) is not None
    assert screen("x = 1\x00") is not None
    deep = screen("-" * 100_000 + "1")
    assert deep is not None
