"""The walls of the house: who imports whom, how large a module may grow, what loads when."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("problems", "archives", "operators", "evaluator", "evokernel")
HEAVY = ("torch", "triton", "ray", "litellm", "matplotlib", "deap", "sqlmodel")
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_CLASS_LINES = 250


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_holds_one_idea_of_readable_size(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert node.end_lineno is not None
            limit = MAX_CLASS_LINES if isinstance(node, ast.ClassDef) else MAX_FUNCTION_LINES
            # a command's signature is its list of flags, one line each, and counts for nothing
            lines = node.end_lineno - node.body[0].lineno + 1
            assert lines <= limit, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_public_names_are_listed_and_exist(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    defines = any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        for node in tree.body
    )
    if not listed:
        assert not defines, "a module with public names lists them in __all__"
        return
    names = listed[0]
    assert len(names) == len(set(names)), "__all__ names each thing once"
    module = import_module(name_of(path))
    for name in names:
        assert hasattr(module, name), f"__all__ lists {name}, which does not exist"


@pytest.mark.parametrize("room", ["problems", "archives"])
def test_rooms_of_plain_data_load_nothing_heavy(room: str) -> None:
    names = [name_of(path) for path in sorted((ROOT / room).rglob("*.py"))]
    allowed = {"sqlmodel"} if room == "archives" else set()
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print([h for h in {HEAVY!r} if h in sys.modules])"
    )
    loaded = ast.literal_eval(_python(code))
    assert set(loaded) <= allowed


@pytest.mark.alone
def test_importing_evokernel_is_cheap_and_loads_nothing_heavy() -> None:
    code = (
        "import time, sys; start = time.perf_counter(); import evokernel\n"
        "spent = time.perf_counter() - start\n"
        f"print([spent, [h for h in {HEAVY!r} if h in sys.modules]])"
    )
    spent, loaded = min((ast.literal_eval(_python(code)) for _ in range(3)), key=lambda r: r[0])
    assert loaded == []
    assert spent < 0.2


@pytest.mark.alone
def test_help_answers_at_once() -> None:
    command = [str(Path(sys.executable).with_name("evokernel")), "--help"]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.6


def test_no_test_folder_is_a_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def _python(code: str) -> str:
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True
    )
    return run.stdout
