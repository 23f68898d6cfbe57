"""Plots for `ablation.py`: what is found by when, and how variants compare to the full search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.ablation_figures import Figures
from benchmarks.ablation_variants import FULL

_FORMATS = ("png", "svg")


def plot(figures: Figures, folder: Path, after: Sequence[int]) -> list[Path]:
    """Draw both plots, each as PNG and SVG.

    Args:
        figures: What was found.
        folder: Where the files go; made where it does not exist.
        after: Numbers of evaluations at which variants are compared.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = [count for count in after if count <= figures.most]
    drawn = {"curves": _curves(figures), "ratios": _ratios(figures, counts)}
    paths = []
    for name, figure in drawn.items():
        for kind in _FORMATS:
            path = folder / f"ablation-{name}.{kind}"
            # No date and no random names: the same figures give the same bytes.
            dated = {"Date": None} if kind == "svg" else None
            with mpl.rc_context({"svg.hashsalt": name}):
                figure.savefig(path, dpi=150, bbox_inches="tight", metadata=dated)
            paths.append(path)
    return paths


def _curves(figures: Figures) -> Figure:
    """The share of the best of each table by number of evaluations, one line for each variant."""
    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    counts = np.arange(1, figures.most + 1)
    shares = figures.found - np.log(figures.bests)[None, :, None, None]
    means = np.exp(shares.mean(axis=(1, 2)))[:, 1:]
    colours = mpl.colormaps["tab10"]
    for row, name in enumerate(figures.variants):
        is_full = name == FULL
        axes.plot(
            counts,
            means[row],
            label=name,
            color="black" if is_full else colours(row % 10),
            linewidth=2.5 if is_full else 1.3,
            linestyle="--" if name.startswith("no axis") else "-",
        )
    axes.set_xscale("log")
    axes.set_xlabel("evaluations")
    axes.set_ylabel("speedup over the best of the table (geometric mean)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _ratios(figures: Figures, counts: Sequence[int]) -> Figure:
    """The ratio of each variant to what it is held against, one panel for each count."""
    rows = [row for row, name in enumerate(figures.variants) if name != FULL]
    figure = Figure(figsize=(2 + 2.2 * len(counts), 1 + 0.4 * len(rows)))
    panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)
    for axes, count in zip(panels[0], counts, strict=True):
        found = [figures.ratio(row, count) for row in rows]
        values = np.array([one.value for one in found])
        ends = np.array([[one.value - one.low, one.high - one.value] for one in found]).T
        axes.errorbar(values, range(len(rows)), xerr=np.maximum(ends, 0), fmt="o", capsize=3)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_title(f"after {count}", fontsize=9)
        axes.grid(visible=True, axis="x", alpha=0.3)
    panels[0][0].set_yticks(range(len(rows)), [figures.title(row) for row in rows])
    panels[0][0].invert_yaxis()
    figure.supxlabel(
        "speedup over that of the full search, or of what is named (geometric mean, 99 % interval)"
    )
    return figure
