"""Which elements of which storages are meant: strided regions, counted without counting twice."""

from __future__ import annotations

from math import prod

from problems.graph import TensorSpec

__all__ = ["Regions"]

_MOST_COMPARED = 64
"""Regions that are compared in pairs; more of them only lower the count."""

Region = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Offset, then strides and sizes of the dimensions with more than one element, widest first."""
Interval = tuple[int, int, float]
"""Start and end along the one dimension in which regions differ, and elements that are meant."""


class Regions:
    """Regions of storages, each with the share of its elements that is meant.

    A count never exceeds the number of distinct elements: regions that cannot be shown to be
    disjoint count as one, the larger of them.
    """

    def __init__(self) -> None:
        self._regions: dict[int, dict[Region, float]] = {}
        self._sizes: dict[int, int] = {}
        self._counts: dict[int, float] = {}

    def declare(self, spec: TensorSpec) -> None:
        """Make known that a tensor lives in its storage."""
        known = self._sizes.get(spec.storage, 0)
        self._sizes[spec.storage] = max(known, _distinct(spec))

    def add(self, spec: TensorSpec, share: float) -> None:
        """Add a share, 0 to 1, of a tensor's elements."""
        count = share * _distinct(spec)
        if count <= 0:
            return
        regions = self._regions.setdefault(spec.storage, {})
        region = _region(spec)
        if count > regions.get(region, 0.0):
            regions[region] = count
            self._counts.pop(spec.storage, None)

    def elements(self, storage: int) -> float:
        """Return how many distinct elements of a storage are meant, at least."""
        if storage not in self._counts:
            self._counts[storage] = self._count(storage)
        return self._counts[storage]

    def share(self, spec: TensorSpec) -> float:
        """Return the share of a tensor's elements that is meant, at least; 0 to 1."""
        size = _distinct(spec)
        if size == 0:
            return 0.0
        elsewhere = max(self._sizes.get(spec.storage, size) - size, 0)
        own = self._regions.get(spec.storage, {}).get(_region(spec), 0.0)
        return min(max(own, self.elements(spec.storage) - elsewhere) / size, 1.0)

    def _count(self, storage: int) -> float:
        grids: dict[tuple[int, ...], dict[Region, float]] = {}
        for region, count in self._regions.get(storage, {}).items():
            grids.setdefault(region[1], {})[region] = count
        total = max((_on_grid(regions) for regions in grids.values()), default=0.0)
        return min(total, self._sizes.get(storage, total))


def _on_grid(regions: dict[Region, float]) -> float:
    """Count the elements of regions with the same strides, at least."""
    intervals = _along_one_dimension(regions)
    if intervals is None:
        return _in_pairs(regions)
    total = last_count = 0.0
    end = -1
    for start, stop, count in sorted(intervals):
        if start >= end:
            total, last_count, end = total + count, count, stop
        elif count > last_count:
            total, last_count, end = total + count - last_count, count, stop
    return total


def _along_one_dimension(regions: dict[Region, float]) -> list[Interval] | None:
    """Return where regions lie along the only dimension in which they start differently.

    None where they differ in several, or where coordinates would not be unique.
    """
    origin = min(offset for offset, _, _ in regions)
    strides = next(iter(regions))[1]
    starts = {}
    for region in regions:
        rest, places = region[0] - origin, []
        for stride in strides:
            place, rest = divmod(rest, stride)
            places.append(place)
        if rest:
            return None
        starts[region] = places
    differing = [d for d in range(len(strides)) if any(places[d] for places in starts.values())]
    if len(differing) != 1 or _wraps(starts, strides):
        return None
    (along,) = differing
    return [
        (places[along], places[along] + region[2][along], regions[region])
        for region, places in starts.items()
    ]


def _wraps(starts: dict[Region, list[int]], strides: tuple[int, ...]) -> bool:
    """Tell whether some region reaches past the next wider stride, where another row begins."""
    return any(
        strides[d] * max(places[d] + region[2][d] for region, places in starts.items())
        > strides[d - 1]
        for d in range(1, len(strides))
    )


def _in_pairs(regions: dict[Region, float]) -> float:
    """Count the elements of regions of which each surely shares none with the larger ones."""
    ranked = sorted(regions.items(), key=lambda item: (-item[1], item[0]))
    chosen: list[Region] = []
    total = 0.0
    for region, count in ranked[:_MOST_COMPARED]:
        if all(_are_disjoint(region, other) for other in chosen):
            chosen.append(region)
            total += count
    return total


def _distinct(spec: TensorSpec) -> int:
    """Number of distinct elements: repeated and overlapping ones count once."""
    if 0 in spec.shape:
        return 0
    steps = list(zip(spec.shape, spec.stride, strict=True))
    extent = 1 + sum((size - 1) * abs(stride) for size, stride in steps)
    return min(prod(size for size, stride in steps if stride != 0), extent)


def _region(spec: TensorSpec) -> Region:
    steps = zip(spec.stride, spec.shape, strict=True)
    kept = sorted(((stride, size) for stride, size in steps if stride and size > 1), reverse=True)
    return spec.offset, tuple(stride for stride, _ in kept), tuple(size for _, size in kept)


def _are_disjoint(one: Region, other: Region) -> bool:
    """Tell whether two regions of one grid surely share no element."""
    (start, strides, sizes), (end, _, sizes_other) = sorted((one, other))
    rest = end - start
    apart, room = False, None
    for stride, size, size_other in zip(strides, sizes, sizes_other, strict=True):
        shift, rest = divmod(rest, stride)
        if room is not None and stride * max(size, shift + size_other) > room:
            return False  # The boxes wrap: their coordinates are not unique.
        apart = apart or shift >= size
        room = stride
    # What is left of the offset falls between the elements of every dimension.
    return apart or (rest != 0 and all(stride % strides[-1] == 0 for stride in strides))
