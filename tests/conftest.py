"""Options and markers of the whole suite."""

from __future__ import annotations

import os
import shutil

import pytest

ALONE = {"evaluator", "zoo"}
"""Folders whose tests measure."""
UNHURRIED = frozenset(
    {
        "test_ceiling.py",
        "test_correctness.py",
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests that take minutes")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what measures; skip what the machine or the options do not allow."""
    skips = {
        "gpu": None if shutil.which("nvidia-smi") else "needs an NVIDIA GPU",
        "slow": None if config.getoption("--run-slow") else "slow: run with --run-slow",
        "llm": None if os.environ.get("EVOKERNEL_TEST_LLM") else "needs EVOKERNEL_TEST_LLM",
    }
    for item in items:
        folders = set(item.path.relative_to(config.rootpath).parts)
        if ALONE & folders and item.path.name not in UNHURRIED:
            item.add_marker(pytest.mark.alone)
        for marker, reason in skips.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True where golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
