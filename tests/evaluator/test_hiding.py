"""The host's folders as a worker sees them that meets none of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import json, os, sys
from evaluator.worker.hiding import hide
from evaluator.worker.kernel import make_mounts_private, mount, unshare

kept, link, hidden, scratch = sys.argv[1:]
user, group = os.geteuid(), os.getegid()
# A process with threads, as numpy's library starts them, may not enter a user namespace.
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
try:
    unshare(0x10000000 | 0x00020000)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                       ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    make_mounts_private()
except OSError as error:
    sys.exit(77)
hide(keep=[link, sys.executable], folders=[scratch])
mount("tmpfs", scratch)

def writable(folder):
    try:
        open(os.path.join(folder, "new"), "w").close()
    except OSError:
        return False
    return True

print(flush=True, end=json.dumps({
    "kept": os.path.exists(os.path.join(kept, "file")),
    "by link": os.path.exists(os.path.join(link, "file")),
    "hidden": os.path.exists(hidden),
    "python": os.access(sys.executable, os.X_OK),
    "beside": writable(os.path.dirname(scratch)),
    "into kept": writable(kept),
    "scratch": writable(scratch),
}))
"""


def test_what_is_kept_is_all_that_is_left(tmp_path: Path) -> None:
    for name in ("kept", "scratch"):
        (tmp_path / name).mkdir()
    for name in ("kept/file", "hidden"):
        (tmp_path / name).touch()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "kept")
    places = [str(tmp_path / name) for name in ("kept", "first", "hidden", "scratch")]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *places], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this machine gives no mounts of their own")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "kept": True,
        "by link": True,
        "hidden": False,
        "python": True,
        "beside": False,
        "into kept": False,
        "scratch": True,
    }
