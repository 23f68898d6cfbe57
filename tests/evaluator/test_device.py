"""What a host is: memory that may be taken, cores, vector registers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.referee.device import core_sets, installed_version, memory_bytes, vector_bits

GIB = 1 << 30


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with 16 GiB available."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable: {16 * GIB // 1024} kB\n")
    (tmp_path / "groups").mkdir()
    return tmp_path


def available(host: Path) -> int:
    return memory_bytes(host / "proc", host / "groups")


def write_group(folder: Path, files: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")


def test_without_limits_it_is_what_the_host_has(host: Path) -> None:
    assert available(host) == 16 * GIB
    (host / "proc" / "self" / "cgroup").write_text("0::/user\n")
    write_group(host / "groups" / "user", {"memory.max": "max", "memory.current": GIB})
    assert available(host) == 16 * GIB


def test_a_limit_of_any_group_above_counts(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("0::/outer/inner\n")
    inner = host / "groups" / "outer" / "inner"
    write_group(inner, {"memory.max": 8 * GIB, "memory.current": GIB})
    assert available(host) == 7 * GIB
    stat = f"anon 5\ninactive_file {GIB}"
    write_group(
        inner.parent, {"memory.max": 6 * GIB, "memory.current": 4 * GIB, "memory.stat": stat}
    )
    assert available(host) == 3 * GIB


def test_the_first_version_of_control_groups_counts_too(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("5:cpu:/x\n4:memory:/only/on/the/host\n0::/\n")
    limits = {"memory.limit_in_bytes": 2 * GIB, "memory.usage_in_bytes": GIB}
    write_group(host / "groups" / "memory", limits)
    assert available(host) == GIB


def test_a_group_beyond_its_limit_leaves_nothing(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("0::/\n")
    write_group(host / "groups", {"memory.max": GIB, "memory.current": 2 * GIB})
    assert available(host) == 0


def test_this_host_has_some() -> None:
    assert memory_bytes() > 64 << 20


def test_timed_code_leaves_cores_for_the_rest() -> None:
    assert (core_sets((3,)).timed, core_sets((3,)).other) == ((3,), (3,))
    assert (core_sets((0, 1)).timed, core_sets((0, 1)).other) == ((0,), (1,))
    eight = core_sets(tuple(range(8)))
    assert (eight.threads, eight.other) == (6, (6, 7))


def test_versions_of_packages_are_told() -> None:
    assert installed_version("numpy")
    assert installed_version("a-package-that-nobody-has") is None


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("processor : 0\nflags\t\t: fpu sse2 avx avx2 avx512f\n", 512),
        ("flags : fpu sse2 avx avx2\n", 256),
        ("flags : fpu sse2\n", 128),
        ("Features\t: fp asimd\n", 128),
        ("model name : unknown\n", 0),
    ],
)
def test_the_width_of_vector_registers_is_read_from_the_kernel(
    text: str, bits: int, tmp_path: Path
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert vector_bits(tmp_path / "cpuinfo") == bits


def test_a_host_without_a_description_has_no_known_vectors(tmp_path: Path) -> None:
    assert vector_bits(tmp_path / "missing") == 0
