"""Loading the text of a program as a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from archives.evaluation import Status
from evaluator.worker.failures import Failure

__all__ = ["load_program"]


def load_program(source: str, name: str, file: str, wanted: Sequence[str]) -> dict[str, Any]:
    """Write a program to the working folder, run it, and return its namespace.

    Args:
        source: Text of the module.
        name: Its name while it runs, and after.
        file: Its file in the working folder; tracebacks show it.
        wanted: Names that it must define.

    Raises:
        Failure: It does not define them.
        Exception: Whatever the program raises.
    """
    path = Path(file)
    path.write_text(source, "utf-8", "surrogatepass")
    code = compile(source, file, "exec", dont_inherit=True)
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    # Dataclasses and ctypes callbacks look their module up by name.
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102 - a program is run here, in its sandbox
    for wish in wanted:
        if not callable(module.__dict__.get(wish)):
            reason = f"no_{'model_new' if wish == 'ModelNew' else wish.lower()}"
            raise Failure(
                Status.BUILD_ERROR, reason, f"the module defines no {wish} at its top level"
            )
    return module.__dict__
