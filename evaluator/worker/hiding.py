"""Hiding the host's files from a worker, those that it needs excepted.

Covered: sockets with a path. To connect to one is neither reading nor writing a file, so read-only
mounts and Landlock permit it, and it leads out of a network namespace. So every folder of the root
is covered with an empty one, but the system's own.
Not covered: sockets in the system's folders (`/usr`, `/etc`, `/dev`) and in what is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from evaluator.worker.kernel import bind_mount, make_mount_read_only, mount

__all__ = ["hide"]

_SYSTEM = frozenset(
    {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"}
)
_BESIDE = ("/dev/shm", "/dev/mqueue")  # noqa: S108 - they are covered, not used
_COVER = "size=1m,nr_inodes=4096,mode=0755"


def hide(*, keep: Iterable[str], folders: Iterable[str]) -> None:
    """Cover the host's folders; runs as process 1 of a new mount namespace.

    Args:
        keep: Files and folders that stay where they are, symbolic links to them included.
        folders: Folders that are empty afterwards, for other mounts.

    Raises:
        OSError: The kernel refuses; what is covered by then stays so.
    """
    covers = [*_top_folders(), *(place for place in _BESIDE if os.path.isdir(place))]
    kept = _outermost({os.path.realpath(path) for path in keep if os.path.exists(path)})
    kept = [path for path in kept if _is_below(path, covers)]
    links = [link for path in keep for link in _links(path) if _is_below(link[0], covers)]
    # Held by descriptor: the covers lie over their paths.
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in kept}
    mask = os.umask(0o022)
    try:
        for cover in covers:
            mount("tmpfs", cover, _COVER)
        for path, descriptor in held.items():
            _make_place(path, is_folder=Path(f"/proc/self/fd/{descriptor}").is_dir())
            bind_mount(f"/proc/self/fd/{descriptor}", path, writable=False, recursive=True)
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        for link, target in links:
            if not os.path.lexists(link):
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(target, link)
        for cover in covers:
            make_mount_read_only(cover)
    finally:
        os.umask(mask)
        for descriptor in held.values():
            os.close(descriptor)


def _top_folders() -> list[str]:
    """Every folder of the root but the system's; links to others are not followed."""
    with os.scandir("/") as entries:
        found = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
    return sorted(path for path in found if path[1:] not in _SYSTEM)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Leave out what lies below another one."""
    found: list[str] = []
    for path in sorted(paths):
        if not _is_below(path, found):
            found.append(path)
    return found


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _links(path: str) -> Iterator[tuple[str, str]]:
    """Yield the symbolic links on the way to a file, with what each holds."""
    pending, at = list(Path(os.path.abspath(path)).parts[1:]), "/"
    for _ in range(1000):
        if not pending:
            return
        step = os.path.normpath(os.path.join(at, pending.pop(0)))
        if not os.path.islink(step):
            at = step
            continue
        target = os.readlink(step)
        yield step, target
        at = "/" if os.path.isabs(target) else at
        pending = [part for part in target.split("/") if part] + pending


def _make_place(path: str, *, is_folder: bool) -> None:
    """Make what another file or folder can be mounted on."""
    if is_folder:
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
