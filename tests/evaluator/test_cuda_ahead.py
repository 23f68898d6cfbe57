"""Configurations that are compiled ahead by several helpers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from threading import Semaphore

import pytest

from archives.evaluation import Status
from evaluator.referee.cuda.ahead import compile_ahead, take_over
from evaluator.referee.failure import CandidateFailed


class Helper:
    """A process that writes an artefact for each configuration; some cannot be compiled."""

    def __init__(self, folder: Path, ended: list[Path]) -> None:
        self.folder = folder
        self.alive = True
        self.ended = ended

    def open(self, index: int, source: str) -> None:
        del index
        if "bad" in source:
            raise CandidateFailed(Status.BUILD_ERROR, "compile_failed")
        key = self.folder / "triton" / source.split()[-1]
        key.mkdir(parents=True)
        (key / "kernel.cubin").write_text(source)
        group = {"child_paths": {"kernel.cubin": str(key / "kernel.cubin")}}
        (key / "__grp__kernel.json").write_text(json.dumps(group))

    def end(self) -> None:
        self.ended.append(self.folder)


def test_every_configuration_is_compiled_where_the_program_looks(tmp_path: Path) -> None:
    build = tmp_path / "build"
    ended: list[Path] = []
    folders: list[Path] = []

    def new_folder() -> Path:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        folders.append(folder)
        return folder

    names = ["a", "b", "bad", "c", "d", "e", "f"]
    compile_ahead(
        [f"import triton  # {name}" for name in names],
        build,
        Semaphore(2),
        new_folder,
        lambda folder: Helper(folder, ended),  # type: ignore[arg-type,return-value]  # a stand-in
        most=8,
    )
    compiled = sorted(path.name for path in (build / "triton").iterdir())
    assert compiled == ["a", "b", "c", "d", "e", "f"]
    group = json.loads((build / "triton" / "c" / "__grp__kernel.json").read_text())
    assert Path(group["child_paths"]["kernel.cubin"]) == build / "triton" / "c" / "kernel.cubin"
    assert Path(group["child_paths"]["kernel.cubin"]).exists()
    assert len(folders) == 3
    assert sorted(ended) == sorted(folders)
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize(
    "sources", [["import triton"] * 3, ["import torch"] * 20], ids=["few", "C++"]
)
def test_where_nothing_is_gained_no_helper_starts(sources: list[str], tmp_path: Path) -> None:
    def unwanted(*_: object) -> Path:
        raise AssertionError("a helper was started")

    compile_ahead(sources, tmp_path, Semaphore(2), unwanted, unwanted, most=8)  # type: ignore[arg-type]  # never called


def test_nothing_is_taken_over_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "real").mkdir(parents=True)
    (source / "real" / "file").write_text("own")
    (source / "real" / "link").symlink_to(secret / "key")
    (source / "folder").symlink_to(secret)
    take_over(source, target)
    assert [path.relative_to(target) for path in target.rglob("*") if path.is_file()] == [
        Path("real/file")
    ]


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder, text in ((source, "new"), (target, "old")):
        (folder / "key").mkdir(parents=True)
        (folder / "key" / "file").write_text(text)
    take_over(source, target)
    assert (target / "key" / "file").read_text() == "old"
