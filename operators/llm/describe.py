"""Plain words from data: what the device allows, how fast a parent is, how a program failed.

Whatever comes from a candidate or a user is for quoting, or passes through `inline`.
"""

from __future__ import annotations

from collections.abc import Sequence

from archives.configuration import Configuration
from archives.evaluation import ConfigurationResult, Evaluation, KernelFacts, Rung, Status
from operators.llm.consult import Speed
from operators.llm.lessons import rule_of
from operators.llm.sections import inline

__all__ = [
    "LEADING_CONFIGURATIONS",
    "configuration_lines",
    "describe_failure",
    "describe_numbers",
    "describe_speed",
]

_BEST, _WORST, _FAILED, _MORE = 5, 3, 3, 32
LEADING_CONFIGURATIONS = _BEST + _WORST + _FAILED
"""Lines of `configuration_lines` that come first since they tell most."""

_BOUNDS = {
    "memory": "moving these bytes takes {}, and no kernel is faster",
    "compute": "these operations take {} at full rate, and only less of them is faster",
    "launch": "launching a kernel takes {}, and no kernel is faster",
}
_UNNAMED_BOUND = "{} is the least that it allows"
_RUNGS = {
    Rung.NONE: "It did not get past the screen, a few rules over its syntax tree.",
    Rung.SCREEN: "It passed the screen, and failed while it was built.",
    Rung.BUILD: "It was built, and failed the check of its results.",
    Rung.CHECK: "Its results were right on the check's inputs; it failed while it was timed.",
    Rung.TIME: "It was right and timed, and failed a second look.",
    Rung.VERIFY: "It was verified, and failed afterwards.",
}


def describe_speed(speed: Speed | None, reference_ms: float | None) -> str:
    """Return what the device allows for the problem, and how far the reference is from it.

    Args:
        speed: From the roofline; None: nothing is known.
        reference_ms: Time of the reference, in ms; None: not measured.
    """
    sentences: list[str] = []
    least_ms = speed.least_ms if speed else None
    if speed is not None:
        work = f"the problem moves at least {_amount(speed.bytes, 'B')}"
        if speed.flops:
            work += f" and takes {_amount(speed.flops, 'FLOP')} of products"
        sentences.append(f"On {inline(speed.device, 80)}, {work}.")
        if least_ms is not None:
            bound = f"It is bound by {inline(speed.bound, 20) or 'the device'}"
            why = _BOUNDS.get(speed.bound, _UNNAMED_BOUND).format(_ms(least_ms))
            sentences.append(f"{bound}: {why}.")
        else:
            sentences.append("What the device allows at most is not known.")
        if speed.ceiling_ms is not None:
            sentences.append(
                f"At the rates that were measured on this very device it takes "
                f"{_ms(speed.ceiling_ms)}; shares of what the device allows are shares of that."
            )
    if reference_ms is not None:
        reference = f"The reference takes {_ms(reference_ms)}"
        if least_ms is not None:
            reference += f": {_times(reference_ms / least_ms)} is the most that can be gained"
        sentences.append(f"{reference}.")
    return " ".join(sentences)


def describe_numbers(evaluation: Evaluation, speed: Speed | None = None) -> str:
    """Return how fast a correct program is, how accurate, and what kind of kernel it is.

    Args:
        evaluation: Its latest evaluation; where a second look has failed it, that is told instead.
        speed: What the device allows; None: nothing is known.
    """
    if evaluation.status is not Status.OK:
        return describe_failure(evaluation)
    assert evaluation.latency_ms is not None, "OK has a latency"
    took = f"One call takes {_ms(evaluation.latency_ms)}"
    if evaluation.reference_ms is not None:
        took += f", the reference {_ms(evaluation.reference_ms)}"
    sentences = [f"{took}: {_speedup(evaluation)}."]
    share = _share(evaluation, speed)
    if share is not None:
        sentences.append(f"That is {share:.0%} of what the device allows.")
    error = _error(evaluation)
    facts = _facts(evaluation.facts)
    sentences += [error] if error else []
    sentences += [f"Measured facts: {'; '.join(facts)}."] if facts else []
    return " ".join(sentences)


def describe_failure(evaluation: Evaluation) -> str:
    """Return how a program failed, without its log, which is for quoting."""
    verdict = f"The verdict is {evaluation.status.value} ({inline(evaluation.reason, 64)})."
    sentences = [verdict, _RUNGS[evaluation.rung]]
    error = _error(evaluation)
    sentences += [error] if error else []
    return " ".join(sentences) + f"\n\n{rule_of(evaluation.status, evaluation.reason)}"


def configuration_lines(tried: Sequence[ConfigurationResult]) -> tuple[str, ...]:
    """Return a line for each configuration tried: its time or its failure, then its point.

    The fastest come first, then the slowest and some failures, then the others, each with its
    rank: whoever cuts at the end keeps what tells most. Of very many, some are only counted.
    """
    timed = sorted(
        (one for one in tried if one.latency_ms is not None), key=lambda one: one.latency_ms or 0.0
    )
    failed = [one for one in tried if one.latency_ms is None]
    ranked = [
        f"{rank:>3}. {_ms(one.latency_ms or 0.0):>9}  {_point(one.configuration)}"
        for rank, one in _chosen(timed)
    ]
    broken = [
        f"     {one.status.value if one.status is not Status.OK else 'not timed'}  "
        f"{_point(one.configuration)}"
        for one in failed[: _FAILED + _MORE]
    ]
    first = _BEST + _WORST
    lines = ranked[:first] + broken[:_FAILED] + ranked[first:] + broken[_FAILED:]
    unsaid = len(tried) - len(lines)
    return (*lines, *([f"({unsaid} more)"] if unsaid else []))


def _chosen(timed: list[ConfigurationResult]) -> list[tuple[int, ConfigurationResult]]:
    """Ranks and results worth a line: the best, the worst, then those between them."""
    ranked = list(enumerate(timed, 1))
    if len(ranked) <= _BEST + _WORST:
        return ranked
    between = ranked[_BEST:-_WORST]
    return ranked[:_BEST] + ranked[-_WORST:] + between[:_MORE]


def _point(configuration: Configuration) -> str:
    return ", ".join(f"{inline(name, 40)}={value!r}" for name, value in configuration.items())


def _speedup(evaluation: Evaluation) -> str:
    assert evaluation.speedup is not None
    text = f"{_times(evaluation.speedup)} as fast"
    if evaluation.interval is not None:
        low, high = evaluation.interval.low, evaluation.interval.high
        text += f" (99 % interval {_times(low)} to {_times(high)})"
    if evaluation.objective_speedup != evaluation.speedup:
        matched = _times(evaluation.objective_speedup or 0.0)
        text += (
            f"; {matched} as fast as the fastest setting of PyTorch that is no less accurate, "
            "which is what counts"
        )
    return text


def _share(evaluation: Evaluation, speed: Speed | None) -> float | None:
    if evaluation.roofline_share is not None:
        return evaluation.roofline_share
    if speed is None or speed.least_ms is None or evaluation.latency_ms is None:
        return None
    return speed.least_ms / evaluation.latency_ms


def _error(evaluation: Evaluation) -> str:
    error, bound = evaluation.error, evaluation.error_bound
    if error is None or not bound:
        return ""
    used = f"{error / bound:.0%}"
    return f"Its error against float64 is {error:.2g} of a permitted {bound:.2g} ({used})."


def _facts(facts: KernelFacts) -> list[str]:
    """What was measured of the kernels, a few words each."""
    words: list[str] = []
    if facts.launches is not None:
        words.append(f"{facts.launches} kernel launch{'es' if facts.launches != 1 else ''} a call")
    if facts.own_kernel_share is not None:
        words.append(f"{facts.own_kernel_share:.0%} of the time in its own kernels")
    if facts.reuse is not None:
        words.append(f"reuse in {facts.reuse.value}")
    if facts.work is not None:
        words.append(f"{_amount(facts.work, 'B')} handled in one step of the main loop or program")
    if facts.programs is not None:
        words.append(f"{facts.programs} programs a launch")
    if facts.streams is not None and facts.streams > 1:
        words.append(f"kernels on {facts.streams} streams")
    if facts.registers is not None:
        words.append(f"{facts.registers} registers a thread")
    if facts.shared_bytes is not None:
        words.append(f"{_amount(facts.shared_bytes, 'B')} of shared memory a program")
    if facts.vector_bits is not None:
        width = f"vectors of {facts.vector_bits} bits" if facts.vector_bits else "scalar code"
        words.append(width)
    return words


def _amount(count: float, unit: str) -> str:
    """A count with a decimal prefix: 12.9 GB."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {prefix}{unit}"
    return f"{count:.0f} {unit}"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"


def _times(factor: float) -> str:
    return f"{factor:.0f}x" if factor >= 1000 else f"{factor:.3g}x"
