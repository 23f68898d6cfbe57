"""Are the five packages the ones that were installed together?

Their names are plain words. A folder `problems/` or a file `evaluator.py` where the user happens
to stand could be imported in place of ours; it is better to refuse than to run half of each.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from problems.errors import ConfigError

__all__ = ["PACKAGES", "check_siblings"]

PACKAGES = ("archives", "evaluator", "evokernel", "operators", "problems")


def check_siblings() -> None:
    """Check that every package resolves next to this one; imports none of them.

    Raises:
        ConfigError: A package is missing or comes from elsewhere.
    """
    home = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"EvoKernel's package {package!r} is not importable next to {home}: "
                "install EvoKernel again"
            )
        found = Path(spec.origin).resolve().parent.parent
        if found != home:
            raise ConfigError(
                f"the name {package!r} resolves to {spec.origin}, not to EvoKernel's own package "
                f"in {home}: rename that file or folder, or run from another folder"
            )
