"""Fixtures of tests that ask a model over HTTP."""

from __future__ import annotations

import gc

import pytest

from operators.llm.loading import load_litellm


@pytest.fixture(scope="module")
def litellm_is_old() -> None:
    """Leave what litellm brings out of garbage collection, which each test asks for."""
    load_litellm()
    gc.freeze()
