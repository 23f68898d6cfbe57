"""Options and markers of the whole suite."""

from __future__ import annotations

import os
import shutil

import pytest

ALONE = {"evaluator", "zoo"}
"""Folders whose tests measure."""

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
        if ALONE & set(item.path.relative_to(config.rootpath).parts):
            item.add_marker(pytest.mark.alone)
        for marker, reason in skips.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """True where golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
