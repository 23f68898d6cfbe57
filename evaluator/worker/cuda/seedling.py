"""Triton's own helper module, compiled once in the zygote and planted in each candidate's cache.

Triton compiles a small C module for the driver before its first kernel, into the cache of
artefacts, which every candidate has to itself. Half a second for each would be a third of what
judging a small kernel takes.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

__all__ = ["compiled_helper", "plant"]


@lru_cache(maxsize=1)
def compiled_helper() -> dict[str, bytes]:
    """Compile the helper, once; a fork inherits it. Makes no context.

    Returns:
        Contents of the files that belong in a cache, by path; empty where it cannot be compiled:
        candidates then try themselves, and tell what is missing.
    """
    from triton.backends.nvidia.driver import CudaUtils

    with tempfile.TemporaryDirectory(dir=".") as folder:
        before = os.environ.get("TRITON_CACHE_DIR")
        os.environ["TRITON_CACHE_DIR"] = os.path.abspath(folder)
        try:
            CudaUtils()
        except (AssertionError, ImportError, OSError, RuntimeError, subprocess.CalledProcessError):
            return {}
        finally:
            if before is None:
                del os.environ["TRITON_CACHE_DIR"]
            else:
                os.environ["TRITON_CACHE_DIR"] = before
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def plant(folder: Path) -> None:
    """Write the compiled helper into a cache that has none."""
    for name, content in compiled_helper().items():
        path = folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
