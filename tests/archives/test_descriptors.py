import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.descriptors import (
    AXES,
    DEFAULT_AXES,
    NOT_MEASURED,
    axes_named,
    describe,
    dims_of,
)
from archives.evaluation import KernelFacts, Reuse
from problems.errors import ConfigError

facts_of_all = st.builds(
    KernelFacts,
    launches=st.one_of(st.none(), st.integers(0, 100)),
    reuse=st.one_of(st.none(), st.sampled_from(Reuse)),
    work=st.one_of(st.none(), st.integers(0, 1 << 20)),
    streams=st.one_of(st.none(), st.integers(0, 1 << 20)),
    vector_bits=st.one_of(st.none(), st.integers(0, 512)),
    registers=st.one_of(st.none(), st.integers(0, 255)),
    shared_bytes=st.one_of(st.none(), st.integers(0, 1 << 18)),
    programs=st.one_of(st.none(), st.integers(0, 1 << 31)),
)


@given(facts=facts_of_all)
def test_every_cell_lies_in_the_grid(facts: KernelFacts) -> None:
    axes = tuple(AXES.values())
    cell = describe(facts, axes)
    assert all(0 <= index < size for index, size in zip(cell, dims_of(axes), strict=True))


@pytest.mark.parametrize(
    ("launches", "label"), [(1, "1"), (2, "2"), (3, "3-4"), (4, "3-4"), (5, "5+"), (99, "5+")]
)
def test_launches_are_binned_as_named(launches: int, label: str) -> None:
    axis = AXES["launches"]
    index = axis.bin_of(KernelFacts(launches=launches))
    assert index is not None
    assert axis.labels[index] == label


def test_kernels_of_a_cpu_spread_over_the_bins_of_work() -> None:
    scalar_avx2_avx512 = [4, 8, 64, 128, 256, 512, 1024, 2048]
    bins = {AXES["work"].bin_of(KernelFacts(work=work)) for work in scalar_avx2_avx512}
    assert len(bins) >= 6


def test_vector_widths_have_a_bin_each() -> None:
    axis = AXES["vector"]
    labels = [axis.labels[axis.bin_of(KernelFacts(vector_bits=b)) or 0] for b in (0, 128, 256, 512)]
    assert labels == ["scalar", "128", "256", "512"]


@pytest.mark.parametrize(
    ("name", "facts", "label"),
    [
        ("registers", KernelFacts(registers=33), "<=64"),
        ("registers", KernelFacts(registers=255), ">128"),
        ("shared", KernelFacts(shared_bytes=0), "0"),
        ("shared", KernelFacts(shared_bytes=48 << 10), "<=48K"),
        ("programs", KernelFacts(programs=132), "<=1K"),
        ("programs", KernelFacts(programs=1 << 20), ">256K"),
    ],
)
def test_what_a_program_of_a_gpu_takes_is_binned_as_named(
    name: str, facts: KernelFacts, label: str
) -> None:
    axis = AXES[name]
    index = axis.bin_of(facts)
    assert index is not None
    assert axis.labels[index] == label


def test_library_calls_have_no_loop_of_their_own_and_still_a_cell() -> None:
    facts = KernelFacts(launches=1, reuse=Reuse.LIBRARY)
    assert describe(facts, axes_named(DEFAULT_AXES)) == (0, 2, 0)


def test_what_could_not_be_measured_has_a_bin_of_its_own() -> None:
    axes = axes_named(DEFAULT_AXES)
    cell = describe(KernelFacts(launches=1, reuse=Reuse.CACHE), axes)
    labels = [axis.labels[index] for axis, index in zip(axes, cell, strict=True)]
    assert labels == ["1", "cache", NOT_MEASURED]
    unknown = describe(KernelFacts(), tuple(AXES.values()))
    assert len(unknown) == len(AXES)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "no axis"),
        (("launches", "colour"), "'colour' is unknown"),
        (("bytes",), "'bytes' is unknown"),
        (("work", "work"), "twice"),
    ],
)
def test_wrong_axes_are_refused_with_what_to_do(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        axes_named(names)


def test_every_axis_is_listed_under_its_name_with_at_least_three_bins() -> None:
    assert all(name == axis.name for name, axis in AXES.items())
    assert all(len(axis.labels) >= 3 for name, axis in AXES.items() if name != "none")


@given(facts=facts_of_all)
def test_without_an_axis_all_candidates_are_of_one_kind(facts: KernelFacts) -> None:
    axes = axes_named(("none",))
    assert dims_of(axes) == (1,)
    assert describe(facts, axes) == (0,)
