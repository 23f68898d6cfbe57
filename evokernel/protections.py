"""The protections that a host may not have, and what then does not hold.

Names are those of `Evaluation.isolation`. Not here: what every host has ("affinity", "caps", "nnp",
"rlimits"), what a limit asks for ("as"), what compute-sanitizer alone gets ("hidden", "sockets"),
and "user", without which there is neither "uid" nor "nproc".
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.referee.foreign_memory import MEMORY_READ

__all__ = ["PROTECTIONS", "Protection"]

_ALLOW_SPACES = "allow user namespaces or run as root"
_ALLOW_MOUNTS = "allow mounts in user namespaces (in a container: with /proc unmasked)"
_NEWER = "use a newer kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """One protection of a candidate's process.

    Attributes:
        name: As it is recorded.
        what: What gives it, in words.
        without: What does not hold where it is missing.
        cure: How to get it.
    """

    name: str
    what: str
    without: str
    cure: str


PROTECTIONS = (
    Protection(
        name="pid",
        what="process namespaces",
        without="what a candidate leaves behind may outlive it for a while",
        cure=_ALLOW_SPACES,
    ),
    Protection(
        name="net",
        what="network namespaces",
        without="seccomp and Landlock alone keep a candidate from the network",
        cure=_ALLOW_SPACES,
    ),
    Protection(
        name="ipc",
        what="IPC namespaces",
        without="seccomp alone keeps a candidate from memory that others share",
        cure=_ALLOW_SPACES,
    ),
    Protection(
        name="mount",
        what="mount namespaces",
        without="a candidate sees this host's mounts as you do",
        cure=_ALLOW_SPACES,
    ),
    Protection(
        name="readonly",
        what="read-only mounts",
        without="Landlock and file permissions alone keep a candidate from writing to your files",
        cure=_ALLOW_MOUNTS,
    ),
    Protection(
        name="proc",
        what="/proc of its own",
        without="Landlock alone keeps a candidate from what /proc tells of other processes",
        cure=_ALLOW_MOUNTS,
    ),
    Protection(
        name="tmpfs",
        what="scratch of limited size",
        without="a candidate may fill the disk",
        cure=_ALLOW_MOUNTS,
    ),
    Protection(
        name="uid",
        what="user id of its own",
        without="to file permissions and signals a candidate is you, so that namespaces and "
        "Landlock alone part it from your files and processes",
        cure="run as root where user namespaces are allowed, or as a user who owns nothing else",
    ),
    Protection(
        name="nproc",
        what="limit on processes",
        without="a candidate may start any number until its memory is used up",
        cure=_ALLOW_SPACES,
    ),
    Protection(
        name="seccomp",
        what="seccomp",
        without="a candidate may open sockets and trace processes, as far as it sees any, leave "
        "its cores, and let timers go off while others are timed",
        cure=f"{_NEWER} (on x86-64)",
    ),
    Protection(
        name="landlock",
        what="Landlock",
        without="a candidate reads what its user id may, and mounts and permissions alone bound "
        "what it writes",
        cure=_NEWER,
    ),
    Protection(
        name=MEMORY_READ,
        what="reading of a candidate's memory",
        without="on a CPU, work of less than 0.5 ms (or one call) that is done after the clock has "
        "stopped goes unseen, and so does a ring of output buffers",
        cure="allow a process to trace its descendants (sysctl kernel.yama.ptrace_scope of 0 or "
        "1; in a container, CAP_SYS_PTRACE)",
    ),
)
