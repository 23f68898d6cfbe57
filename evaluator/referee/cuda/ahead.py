"""Configurations compiled ahead: several processes at a time, before one process tries them all.

Triton takes a second for a kernel and uses one core for it; trying it takes a tenth of that. So a
program's configurations are shared out among helpers, each with a folder of its own, since each
worker has a user of its own. What they compiled is then put where the program's processes look.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Semaphore

from evaluator.processes import remove_folder
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.watchdog import MAX_FOLDER_BYTES
from problems.errors import EvaluatorError

__all__ = ["compile_ahead", "take_over"]

SHARE = 2
"""Configurations that make a helper worth its start."""
CACHE = "triton"
"""Where Triton's artefacts are in a build folder; see `evaluator.worker.sandbox`."""
_GROUP = "__grp__"


def compile_ahead(
    sources: Sequence[str],
    build: Path,
    helpers: Semaphore,
    new_folder: Callable[[], Path],
    new_process: Callable[[Path], CudaCandidate],
    most: int,
) -> None:
    """Compile configurations of a Triton program; what fails here fails again when it is built.

    Args:
        sources: The program's text with each configuration written in.
        build: Where the artefacts are to be.
        helpers: Bounds the helpers of all programs.
        new_folder: Makes a private folder for a helper.
        new_process: Starts a helper that builds in a folder.
        most: Helpers at most.
    """
    count = min(len(sources) // SHARE, most)
    if count < 2 or CACHE not in sources[0]:
        return

    def work(share: Sequence[str]) -> None:
        # What no helper could compile, for want of memory, is compiled when it is built.
        with helpers, _removed(new_folder()) as folder, suppress(EvaluatorError):
            _compile(share, new_process(folder))
            with suppress(OSError):
                # What cannot be read or does not fit is compiled again.
                take_over(folder / CACHE, build / CACHE)

    with ThreadPoolExecutor(count, thread_name_prefix="ahead") as threads:
        list(threads.map(work, [sources[first::count] for first in range(count)]))


def take_over(source: Path, target: Path) -> None:
    """Put artefacts of one folder of Triton's into another one, where they are not there already.

    Args:
        source: Written by a process that is not trusted and has ended; links are left out.
        target: Where they are to be.

    Raises:
        OSError: A file cannot be read or written, or all are larger than a build may be.
    """
    left = MAX_FOLDER_BYTES
    for path in _files(source):
        left -= path.lstat().st_size
        if left < 0:
            raise OSError(f"what was built in {source} takes over {MAX_FOLDER_BYTES} bytes")
        place = target / path.relative_to(source)
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith(_GROUP):
            # It names the files of a kernel by their whole paths.
            place.write_bytes(path.read_bytes().replace(bytes(source), bytes(target)))
        else:
            shutil.copyfile(path, place)


def _files(source: Path) -> Iterator[Path]:
    """The files of a folder's folders; nothing is reached through a link."""
    for folder in source.iterdir() if source.is_dir() and not source.is_symlink() else ():
        if folder.is_dir() and not folder.is_symlink():
            for path in folder.iterdir():
                if path.is_file() and not path.is_symlink():
                    yield path


def _compile(share: Sequence[str], process: CudaCandidate) -> None:
    try:
        for number, source in enumerate(share):
            try:
                process.open(number, source)
            except CandidateFailed:
                # Its own build will say why.
                if not process.alive:
                    return
    finally:
        process.end()


@contextmanager
def _removed(folder: Path) -> Iterator[Path]:
    """Remove a folder after the block."""
    try:
        yield folder
    finally:
        remove_folder(folder)
