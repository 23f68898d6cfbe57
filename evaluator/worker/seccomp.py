"""A system call filter for workers, by plain prctl; x86-64 only.

Covered: every socket, but on a GPU those of its driver, which can connect to nothing, and all of a
process that meets no other's (the sanitizer's); shared memory and message queues that outlive or
escape the process (System V, POSIX queues, memfd, io_uring); looking into or steering other
processes; mounts and namespaces; the kernel's own settings, clocks included; leaving the CPUs that
were assigned; threads that keep their process from being halted; timers that interrupt whoever has
the CPU while their process is halted, but on a GPU, whose driver may want them.
Not covered: what the permitted calls can do (Landlock and the namespaces bound that).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from evaluator.worker.kernel import prctl

__all__ = ["apply"]

_DENIED = {
    # network, local sockets included
    "socket": 41,
    "socketpair": 53,
    # memory and queues that others can reach, or that no limit counts
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "shmdt": 67,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "semtimedop": 220,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "mq_open": 240,
    "mq_unlink": 241,
    "memfd_create": 319,
    "memfd_secret": 447,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "userfaultfd": 323,
    # other processes
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "process_madvise": 440,
    "kcmp": 312,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "pidfd_send_signal": 424,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "sched_setattr": 314,
    # the tree of mounts, namespaces
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "unshare": 272,
    "setns": 308,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    # the kernel
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "bpf": 321,
    "perf_event_open": 298,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "acct": 163,
    "quotactl": 179,
    "settimeofday": 164,
    "clock_settime": 227,
    "adjtimex": 159,
    "clock_adjtime": 305,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "personality": 135,
}
_TIMERS = {"timer_create": 222, "timerfd_create": 283}
"""Any number of them can be armed; each one that goes off takes microseconds of its CPU, also while
their process is halted and another one is timed there."""
_SOCKETS = frozenset({"socket", "socketpair"})
_SOCKET, _CONNECT = 41, 42
_SCHED_SETAFFINITY = 203
_CLONE = 56
_CLONE3 = 435
_CLONE_VFORK, _CLONE_THREAD = 0x4000, 0x10000
"""Together: a thread for which its parent waits in a way that no signal ends, so that the process
cannot be halted."""
_NAMESPACE_FLAGS = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_AUDIT_ARCH_X86_64 = 0xC000003E
_X32_BIT = 0x40000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERROR = 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_OFFSET_SECOND_ARGUMENT = 24
_AF_UNIX = 1
_SEQPACKET_CLOEXEC = 0x80005

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def apply(*, pin_affinity: bool, gpu: bool = False, sockets: bool = False) -> bool:
    """Put the filter on this process and all its future children, for good.

    `PR_SET_NO_NEW_PRIVS` must be set.

    Args:
        pin_affinity: Turn `sched_setaffinity` into a call that succeeds and does nothing, so
            that no thread leaves the process's CPUs. It must not fail: OpenMP gives up then.
        gpu: Permit the kind of local socket that CUDA's driver binds when it starts.
        sockets: Permit every socket, for a process whose network leads nowhere and that meets
            no socket of the host among its files.

    Returns:
        False where this machine has no such filter.
    """
    if os.uname().machine != "x86_64" or struct.calcsize("P") != 8:
        return False
    instructions = _instructions(pin_affinity=pin_affinity, gpu=gpu, sockets=sockets)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(instructions), ctypes.addressof(buffer))
    try:
        prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))
    except OSError:
        return False
    return True


def _instructions(
    *, pin_affinity: bool, gpu: bool, sockets: bool
) -> list[tuple[int, int, int, int]]:
    """Return the program: (code, jump if true, jump if false, operand) each."""
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    program = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        refuse,
    ]
    if gpu and not sockets:
        program += _driver_socket(refuse)
    for name, number in (_DENIED if gpu else {**_DENIED, **_TIMERS}).items():
        if sockets and name in _SOCKETS:
            continue
        program += [(_JUMP_EQUAL, 0, 1, number), refuse]
    # The C library falls back to clone, whose flags a filter can see.
    program += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    if pin_affinity:
        program += [(_JUMP_EQUAL, 0, 1, _SCHED_SETAFFINITY), (_RETURN, 0, 0, _ERROR)]
    program += [
        (_JUMP_EQUAL, 0, 6, _CLONE),
        (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT),
        (_JUMP_ANY_BIT, 0, 1, _NAMESPACE_FLAGS),
        refuse,
        (_JUMP_ANY_BIT, 0, 2, _CLONE_VFORK),
        (_JUMP_ANY_BIT, 0, 1, _CLONE_THREAD),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return program


def _driver_socket(refuse: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
    """Permit local sockets of one type that must be connected, and refuse to connect any."""
    return [
        (_JUMP_EQUAL, 0, 1, _CONNECT),
        refuse,
        (_JUMP_EQUAL, 0, 6, _SOCKET),
        (_LOAD, 0, 0, _OFFSET_FIRST_ARGUMENT),
        (_JUMP_EQUAL, 0, 3, _AF_UNIX),
        (_LOAD, 0, 0, _OFFSET_SECOND_ARGUMENT),
        (_JUMP_EQUAL, 0, 1, _SEQPACKET_CLOEXEC),
        (_RETURN, 0, 0, _ALLOW),
        refuse,
    ]
