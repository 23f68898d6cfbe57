"""Load problems from files in KernelBench's form.

A file is checked by its syntax tree alone: nothing of it runs in this process. What it does when
it runs is found out where it is traced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from problems.bindings import bindings, lacks_forward
from problems.errors import ProblemError
from problems.problem import Problem, Scale
from problems.syntax import parse

__all__ = ["load_file", "load_folder"]

_FILE_NAME = re.compile(r"(\d+)_(.+)\.py")
_FUNCTIONS = ("get_inputs", "get_init_inputs")

_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"conv", "conv"),
    (r"matmul|matrix|gemm|linear", "matmul"),
    (r"loss", "loss"),
    (r"pool", "pool"),
    (r"attention", "attention"),
    (r"cumsum|cumprod|scan", "scan"),
    (r"softmax|reduc|argm(ax|in)", "reduction"),
    (r"norm", "norm"),
    (r"elu|sigmoid|tanh|swish|soft(plus|sign)|activation", "elementwise"),
)


def load_file(path: Path) -> Problem:
    """Return the problem in one file: level 0, id 1, named as the file.

    Args:
        path: A Python file that defines `Model`, `get_inputs` and `get_init_inputs`.

    Raises:
        ProblemError: The file cannot be read, does not parse or lacks a definition.
    """
    return _load(path, level=0, number=1, name=path.stem)


def load_folder(
    path: Path, level: int, ids: Sequence[int] | None = None
) -> tuple[list[Problem], list[ProblemError]]:
    """Return the problems of a folder in KernelBench's layout, and what could not be loaded.

    Args:
        path: A folder with files such as `level1/23_Softmax.py`, or the level's own folder.
        level: Which level to read.
        ids: Which problems, in this order; None: all, by id.

    Returns:
        The problems, and one error for each file or id that is none.

    Raises:
        ProblemError: There is no such folder, or no problem file in it.
    """
    errors: list[ProblemError] = []
    try:
        folder = _level_folder(path, level)
        found = _numbered_files(folder, errors)
    except OSError as error:
        raise ProblemError(f"the folder {path} cannot be read: {error.strerror}") from error
    chosen = sorted(found) if ids is None else list(ids)
    problems: list[Problem] = []
    for number in chosen:
        if number not in found:
            known = _span(sorted(found))
            errors.append(ProblemError(f"{folder} has no problem {number}: its ids are {known}"))
            continue
        name, file = found[number]
        try:
            problems.append(_load(file, level=level, number=number, name=name))
        except ProblemError as error:
            errors.append(error)
    return problems, errors


def _level_folder(path: Path, level: int) -> Path:
    if not path.is_dir():
        raise ProblemError(f"{path} is not a folder: expected one with level{level}/ID_NAME.py")
    for folder in (path / f"level{level}", path):
        if folder.is_dir() and any(_FILE_NAME.fullmatch(file.name) for file in folder.iterdir()):
            return folder
    raise ProblemError(
        f"{path} holds no problem of level {level}: expected files such as "
        f"level{level}/23_Softmax.py"
    )


def _numbered_files(folder: Path, errors: list[ProblemError]) -> dict[int, tuple[str, Path]]:
    """Return name and file by id; a second file with one id is an error."""
    found: dict[int, tuple[str, Path]] = {}
    for file in sorted(folder.iterdir()):
        match = _FILE_NAME.fullmatch(file.name)
        if match is None:
            continue
        number = int(match[1])
        if number in found:
            first = found[number][1].name
            errors.append(
                ProblemError(f"{file} has the id of {first}: give each problem its own number")
            )
            continue
        found[number] = (match[2], file)
    return found


def _span(numbers: list[int]) -> str:
    """Name sorted numbers for people, such as "1-3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in spans)


def _load(path: Path, *, level: int, number: int, name: str) -> Problem:
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProblemError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path} is not UTF-8 text: expected a Python file") from error
    _check(source, path)
    return Problem(
        level=level,
        id=number,
        name=name,
        family=_family(name),
        scale=Scale.CUSTOM,
        source=source,
    )


def _family(name: str) -> str:
    """Guess the family from a problem's name."""
    lowered = name.lower()
    return next((family for word, family in _FAMILIES if re.search(word, lowered)), "custom")


def _check(source: str, path: Path) -> None:
    """Raise `ProblemError` unless the source has the form of a problem."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else "its text"
        raise ProblemError(f"{path} does not parse: {error.msg} in {where}") from error
    bound = bindings(tree.body)
    if "Model" not in bound:
        raise ProblemError(f"{path} defines no class Model: add the torch.nn.Module to be beaten")
    if lacks_forward(bound, "Model"):
        raise ProblemError(f"{path} defines a class Model without forward: add the method")
    for name in _FUNCTIONS:
        if name not in bound:
            what = "forward" if name == "get_inputs" else "the constructor of Model"
            raise ProblemError(
                f"{path} defines no function {name}: add it, it returns the list of arguments of "
                f"{what}"
            )
