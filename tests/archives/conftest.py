"""Hypothesis without deadlines and luck: the machine may be busy, a suite repeats itself."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")
