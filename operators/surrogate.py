"""A surrogate: from points that were tried, how likely others are among the best.

A classifier, not a regression: what counts is which points are worth a measurement, and a fit to
all latencies spends itself on telling slow from very slow. Positive are the points of the fastest
tenth, at least the best few; all others are negative, failures among them. It is a bag of shallow
trees: interactions (a large tile is good with many warps only) are what a space is made of, and the
trees' disagreement tells where nothing is known. Choices of a numeric parameter are split by
order, which makes powers of two and their logarithms the same, and singled out too, since 0 often
means "not at all".

Source: Breiman, Bagging Predictors, Machine Learning 24 (1996); Geurts, Ernst and Wehenkel,
Extremely Randomized Trees, Machine Learning 63 (2006), for the random subset of splits at a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Lattice

__all__ = ["LEAST_POINTS", "Surrogate"]

LEAST_POINTS = 8
"""Tried points below which nothing is to be learned."""

_TREES = 32
_DEPTH = 4
_PRIOR = 1e-3
"""Weight of a node's parent in its share; a class as a whole weighs 0.5."""
_LEAST_GAIN = 1e-6
_BEST_SHARE = 0.1
_BEST_FEW = 4
_SPLITS_SEEN = 0.5
"""Share of the splits that a node looks at: trees must differ more than resampling makes them."""

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Surrogate:
    """Tells how likely points of a space are among its best.

    All trees are whole, of the same depth, and grow together level by level: node k has its sides
    in 2 k ("no") and 2 k + 1 ("yes") of the next level. Where nothing is left to be told apart, the
    question is one that everybody answers by "no".
    """

    def __init__(self, lattice: Lattice, questions: Sequence[Numbers], shares: Floats) -> None:
        """Use `fit`."""
        self._lattice = lattice
        self._questions = questions
        self._shares = shares

    @classmethod
    def fit(
        cls,
        lattice: Lattice,
        tried: Sequence[ConfigurationResult],
        rng: np.random.Generator,
    ) -> Surrogate | None:
        """Learn from what was tried.

        Args:
            lattice: The space.
            tried: Points with their outcome; those outside the space are passed over, and of
                those tried several times the best outcome counts.
            rng: Random stream; the same one gives the same surrogate.

        Returns:
            The surrogate; None where fewer than `LEAST_POINTS` points were tried, or nothing
            tells them apart: none was timed.
        """
        latencies = _latencies(lattice, tried)
        times = np.array(list(latencies.values()), dtype=np.float64)
        if len(times) < LEAST_POINTS or not np.isfinite(times).any():
            return None
        answers = _answers(lattice, np.array(list(latencies), dtype=np.int64))
        return cls(lattice, *_grow(answers, _labels(times), rng))

    def score(self, points: Numbers) -> Floats:
        """Return for each point how likely it is among the best.

        Args:
            points: Indices of choices, one row for each point.

        Returns:
            Mean of the trees' shares, 0 to 1.
        """
        answers = _answers(self._lattice, points)
        flat, rows = answers.ravel(), np.arange(len(points)) * answers.shape[1]
        votes = np.empty((_TREES, len(points)))
        for tree in range(_TREES):
            nodes = np.zeros(len(points), dtype=np.int64)
            for questions in self._questions:
                nodes = 2 * nodes + flat.take(rows + questions[tree].take(nodes))
            votes[tree] = self._shares[tree].take(nodes)
        means: Floats = votes.mean(axis=0)
        return means


def _grow(answers: Bools, labels: Bools, rng: np.random.Generator) -> tuple[list[Numbers], Floats]:
    """Grow all trees, each on a sample with replacement.

    Returns:
        The questions of each level, (trees, nodes), and the share of positives in each leaf,
        (trees, leaves).
    """
    count, positives = len(labels), labels.sum()
    # Both classes weigh the same: one in ten is positive.
    balance = np.where(labels, 0.5 / positives, 0.5 / max(1, count - positives))
    drawn = np.stack([rng.multinomial(count, [1 / count] * count) for _ in range(_TREES)])
    weights = drawn * balance
    # For each question those that answer "yes", and the positives among them.
    known = np.concatenate([answers, answers & labels[:, None]], axis=1).astype(np.float32)
    trees, rows = np.arange(_TREES)[:, None], np.arange(count)
    nodes = np.zeros((_TREES, count), dtype=np.int64)
    shares = np.full((_TREES, 1), 0.5)
    questions: list[Numbers] = []
    for level in range(_DEPTH + 1):
        members = np.zeros((_TREES, 1 << level, count), dtype=np.float32)
        members[trees, nodes, rows] = weights
        totals, good = members.sum(axis=2), members @ labels.astype(np.float32)
        shares = (good + _PRIOR * shares) / (totals + _PRIOR)
        if level == _DEPTH:
            break
        taken, found = np.split(members @ known, 2, axis=2)
        gain = _gain(taken, found, totals, good)
        gain[rng.random(gain.shape) >= _SPLITS_SEEN] = 0.0
        gain[..., -1] = _LEAST_GAIN
        questions.append(gain.argmax(axis=2))
        nodes = 2 * nodes + answers[rows, questions[-1][trees, nodes]]
        shares = np.repeat(shares, 2, axis=1)
    return questions, shares


def _gain(taken: Floats, found: Floats, totals: Floats, good: Floats) -> Floats:
    """The decrease of the Gini impurity, times half the weight, by each question at each node.

    Args:
        taken: Weight that answers "yes", (trees, nodes, questions).
        found: That of positives.
        totals: Weight of each node, (trees, nodes).
        good: That of positives.
    """
    left, missed = totals[..., None] - taken, good[..., None] - found
    with np.errstate(divide="ignore", invalid="ignore"):
        # A node of weight w with p positives has the impurity 2 p (w - p) / w.
        before = good * (totals - good) / totals
        after = found * (taken - found) / taken + missed * (left - missed) / left
        gain = before[..., None] - after
    return np.where((taken > _LEAST_GAIN) & (left > _LEAST_GAIN), gain, 0.0)


def _latencies(
    lattice: Lattice, tried: Sequence[ConfigurationResult]
) -> dict[tuple[int, ...], float]:
    """The best time of each point in ms, infinite where it never worked."""
    found: dict[tuple[int, ...], float] = {}
    for result in tried:
        point = lattice.encode(result.configuration)
        if point is None:
            continue
        works = result.status is Status.OK and result.latency_ms is not None
        time = result.latency_ms if works and result.latency_ms is not None else np.inf
        found[point] = min(time, found.get(point, np.inf))
    return found


def _labels(times: Floats) -> Bools:
    """Whether each point is among the best: a tenth of all, at least a few, all of them timed."""
    count = max(_BEST_FEW, round(_BEST_SHARE * len(times)))
    limit = np.sort(times)[min(count, len(times)) - 1]
    labels: Bools = (times <= limit) & np.isfinite(times)
    return labels


def _answers(lattice: Lattice, points: Numbers) -> Bools:
    """What points answer to all questions that a node may ask; one column for each.

    For numbers "at least v?" for every v but the smallest, for every parameter "v?" for every v,
    and at last the question that everybody answers by "no".
    """
    columns: list[Bools] = []
    for axis, values in enumerate(lattice.choices):
        chosen = points[:, axis]
        if len(values) < 2:
            continue
        columns += [chosen == index for index in range(len(values))]
        numbers = [float(value) for value in values if not isinstance(value, str)]
        if len(numbers) == len(values) > 2:
            ranks = np.argsort(np.argsort(numbers, kind="stable"))[chosen]
            columns += [ranks >= rank for rank in range(1, len(values))]
    columns.append(np.zeros(len(points), dtype=bool))
    return np.stack(columns, axis=1)
