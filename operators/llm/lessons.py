"""Lessons: what failed evaluations teach whoever writes the next program.

Each reason code of the referee, and that of a run's policy, has one rule, a sentence that says what
to do instead. A reason that is not in the table gets a general one, so that a new code is a lesson
from its first day on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from archives.evaluation import Status
from operators.llm.sections import inline

__all__ = ["NO_LESSON", "RULES", "Setback", "lessons_of", "rule_of", "telling_line"]

NO_LESSON = frozenset(
    {
        "host_noisy", "twin_not_timed", "evaluator_died", "not_open", "no_such_call", "bad_handle",
        "driver_error", "no_signals",
        "domain_count", "init_not_plain", "input_not_plain", "output_not_plain", "problem_raised",
    }
)  # fmt: skip
"""Reasons that say nothing about the program: the host was busy, the evaluator died, or the
problem itself is at fault."""

RULES: Mapping[str, str] = MappingProxyType(
    {
        # screen
        "source_too_large": "You cannot send a module of more than 512 KB.",
        "syntax_error": "The module must parse as Python: close every bracket and string.",
        "no_model_new": "The module must define a class `ModelNew` at its top level.",
        "fallback_to_reference": (
            "You cannot inherit from or call the reference, nor catch a failure in `forward` and "
            "return a library's result: let it fail."
        ),
        "background_thread": (
            "You cannot start threads that work between calls: use OpenMP inside the kernel, and "
            "finish all work in `forward`."
        ),
        "background_process": "You cannot leave processes running: end each before you return.",
        "forbidden_module": "You cannot import modules that no kernel needs.",
        "global_state": "You cannot change torch's global switches: leave them as they are.",
        "patched_module": "You cannot assign to attributes of torch, time or sys.",
        "thread_setting": "You cannot set torch's number of threads: it is set for you.",
        "frame_access": "You cannot look into other frames or trace execution.",
        "delegation_compile": "You cannot use `torch.compile`: write the kernel yourself.",
        "early_exit": "You cannot exit the process: return from `forward`, or raise.",
        "lazy_tensor": (
            "You cannot return subclasses of tensors or tensors with own attributes: return plain "
            "tensors whose values are there already."
        ),
        # build
        "compile_failed": "The kernel's source must compile: check declarations and types.",
        "build_raised": (
            "Importing the module and constructing `ModelNew` must not raise: check the compiler's "
            "messages, names and types of arguments."
        ),
        "build_too_large": "You cannot write more than 512 MB while you build.",
        "no_configuration": (
            "`CONFIG` must be a top-level literal dict with a value for every tunable parameter."
        ),
        # calls
        "forward_raised": (
            "`forward` must run for the given shapes, dtypes and strides without raising."
        ),
        "allocation_failed": "You cannot allocate that much memory: keep fewer intermediates.",
        "hoarded_memory": "You cannot keep the device's memory from call to call.",
        "memory_limit": "You cannot pass the memory limit: keep fewer intermediates.",
        "channel_closed": "You cannot touch descriptors that are not your own.",
        "forbidden_system_call": "You cannot use sockets or other system calls a kernel needs not.",
        "forged_message": "You cannot write to the referee's channel.",
        "reply_too_large": "You cannot return that much: return what the reference returns.",
        # outputs
        "wrong_output_count": (
            "`forward` must return as many tensors as the reference, a tuple only where it does."
        ),
        "output_count": "You cannot return that many outputs: return what the reference returns.",
        "wrong_shape": "Outputs must have the shapes of the reference's outputs.",
        "output_too_large": "Outputs must have the shapes of the reference's outputs.",
        "wrong_dtype": "Outputs must have the dtypes of the reference's outputs.",
        "unknown_dtype": "Outputs must have the dtypes of the reference's outputs.",
        "not_a_tensor": "`forward` must return plain tensors, as the reference does.",
        "not_a_dense_tensor": "Outputs must be dense tensors on the device of the inputs.",
        "overlapping_output": (
            "You cannot return a tensor that repeats elements in memory (expanded): make it dense."
        ),
        # values
        "wrong_value": (
            "Results must be right for inputs of every scale and sign, in every element: check "
            "remainders, initial values of reductions, overflow and cancellation."
        ),
        "wrong_when_timed": (
            "Results must stay right when calls follow each other: keep no state between calls."
        ),
        "output_reused": (
            "Outputs must be new tensors on each call: a later call must not overwrite them."
        ),
        "result_varies": (
            "The same inputs must give the same result: look for races, memory that was not "
            "initialised, and atomics in varying order."
        ),
        "mutated_input": "You cannot write to inputs: write to a tensor of your own.",
        # time
        "deferred_work": "You cannot put work off: results must be there when `forward` returns.",
        "events": (
            "All work of a call must lie between its start and its end on the current stream: you "
            "cannot put work on other streams that nobody waits for."
        ),
        "cuda_error": (
            "The kernel must not touch memory outside its tensors, nor launch more threads or "
            "shared memory than the device has: check bounds and strides."
        ),
        "unreadable_output": "Outputs must lie in memory of their own that torch allocated.",
        "faster_than_memory": (
            "You cannot be faster than the device can read the inputs and write the outputs: read "
            "all that the result depends on, on every call."
        ),
        "faster_than_a_launch": "You cannot be faster than one launch: compute in `forward`.",
        "faster_than_a_call": "You cannot be faster than an empty call: compute in `forward`.",
        "weights_not_loadable": (
            "The model must take the reference's weights: keep names and shapes of its state dict."
        ),
        "slope": "You cannot skip the work of some calls: every call takes its full time.",
        "unexplained": "The program failed without a reason that could be read.",
        # the run's policy
        "library_work": (
            "You cannot leave the work to torch's or another library's kernels: write kernels that "
            "do nearly all of it themselves."
        ),
    }
)  # fmt: skip
"""What to do instead, by reason code."""

_FAMILIES = {
    "killed_by_": (
        "You cannot read or write out of bounds, or do whatever else makes the kernel of the "
        "operating system kill a process: check every index against the real sizes."
    ),
    "timeout_in_open": "Building must end within a minute: fewer templates, less unrolling.",
    "timeout_in_": "Calls must end: look for loops that never finish, deadlocks and tiny grids.",
}
"""The same by the first letters of a code, for codes that vary; the first that fits counts."""

_TELLING = re.compile(r"\berror\b:|^\w+(\.\w+)*(Error|Exception|Interrupt|Exit)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """One failed evaluation, or several that are alike.

    Attributes:
        status: The verdict; not `OK`.
        reason: Its stable code.
        log: What the referee said; its telling line is read.
        family: Family of the problem it happened on; "": the problem at hand.
        count: How many evaluations this stands for.
    """

    status: Status
    reason: str
    log: str = ""
    family: str = ""
    count: int = 1


def rule_of(status: Status, reason: str) -> str:
    """Return what to do instead of what led to a verdict, one or two sentences."""
    if reason in RULES:
        return RULES[reason]
    for start, rule in _FAMILIES.items():
        if reason.startswith(start):
            return rule
    return f"Avoid what the referee calls {status.value} ({inline(reason, 64)})."


def lessons_of(setbacks: Iterable[Setback], most: int = 8) -> tuple[str, ...]:
    """Return what failures teach, one line each, the most frequent first.

    Failures with one rule are one lesson, with how often it was met and its most frequent telling
    line. Equally frequent ones follow their first occurrence.

    Args:
        setbacks: Failures of the problem and of its family; those of `NO_LESSON` are skipped.
        most: How many lessons at most.
    """
    groups: dict[str, list[Setback]] = {}
    for setback in setbacks:
        if setback.reason not in NO_LESSON:
            groups.setdefault(rule_of(setback.status, setback.reason), []).append(setback)
    ranked = sorted(groups.items(), key=lambda item: -sum(s.count for s in item[1]))
    return tuple(_lesson(rule, group) for rule, group in ranked[:most])


def telling_line(log: str) -> str:
    """Return the line of a log that tells most: the first error named in it, else the first."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), lines[0] if lines else "")


def _lesson(rule: str, group: list[Setback]) -> str:
    here = sum(setback.count for setback in group if not setback.family)
    others = Counter[str]()
    lines = Counter[str]()
    for setback in group:
        if setback.family:
            others[setback.family] += setback.count
        line = telling_line(setback.log)
        if line:
            lines[line] += setback.count
    met = [f"{here}x here"] if here else []
    met += [f"{count}x in family {inline(family, 40)}" for family, count in others.most_common()]
    example = f"; such as: `{inline(lines.most_common(1)[0][0])}`" if lines else ""
    return f"{rule} ({', '.join(met)}{example})"
