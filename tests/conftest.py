"""Options and markers of the whole suite."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

ALONE = {"evaluator", "zoo"}
"""Folders whose tests measure."""
UNHURRIED = frozenset(
    {
        "test_ceiling.py",
        "test_cluster.py",
        "test_correctness.py",
        "test_cuda_rooms.py",
        "test_device.py",
        "test_footprint.py",
        "test_hardware.py",
        "test_indices.py",
        "test_lifting.py",
        "test_linting.py",
        "test_pool.py",
        "test_reference_worker.py",
        "test_roofline.py",
        "test_sandbox.py",
        "test_sanitizing.py",
        "test_screen.py",
        "test_sessions.py",
        "test_wire.py",
        "test_work.py",
        "test_worker.py",
        "test_zygote.py",
    }
)
"""Files there that nothing disturbs."""

# Importing litellm would otherwise wait for the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# Threads of torch that wait would take the core from the tests beside; workers never do.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests that take minutes")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import the suite without garbage collection, and leave what it brings out of it.

    These million objects stay to the end: walking them again and again took four tenths of the
    import, and more than half a second wherever a test collects garbage.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which the two commands of `make test` select nothing."""
    wanted = config.option.markexpr
    if wanted not in ("alone", "not alone") or not collection_path.match("test_*.py"):
        return None
    measures = _measures(collection_path.relative_to(config.rootpath))
    if wanted == "not alone":
        return measures or None
    return None if measures or "mark.alone" in collection_path.read_text() else True


def _measures(path: Path) -> bool:
    """Whether all tests of a file are alone, by its place."""
    return bool(ALONE & set(path.parts)) and path.name not in UNHURRIED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what measures; skip what the machine or the options do not allow."""
    skips = {
        "gpu": None if shutil.which("nvidia-smi") else "needs an NVIDIA GPU",
        "slow": None if config.getoption("--run-slow") else "slow: run with --run-slow",
        "llm": None if os.environ.get("EVOKERNEL_TEST_LLM") else "needs EVOKERNEL_TEST_LLM",
    }
    for item in items:
        if _measures(item.path.relative_to(config.rootpath)):
            item.add_marker(pytest.mark.alone)
        for marker, reason in skips.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True where golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
