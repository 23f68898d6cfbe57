"""A scripted model that knows three improvements of one kernel, and a world that measures them.

first --mutate--> tiled --mutate--> broken --repair--> vector;  tiled x vector --crossover--> both.

It answers only prompts that hold what it must be told: the parent's text and its timings, or the
error of a failed program; anything else is refused as a bad request.
"""

from __future__ import annotations

from archives.evaluation import Evaluation, KernelFacts, Reuse, Rung, Status
from evaluator.evaluator import EvaluationRequest
from operators.llm.sections import Section, parse
from tests.evokernel import landscape as world
from tests.scripted_llm import Reply, Request, fenced, refusal

SPEEDUPS = {"first": 1.25, "tiled": 1.6, "vector": 2.5, "both": 4.0}
STEPS = ("first", "tiled", "broken", "vector", "both")
ERROR = "inputs 'own': largest error 0.5 at flat index 17"
PROGRAM = '''\
import ctypes

import torch
from torch import nn

STEP = "{step}"
CPP_SOURCE = r"""
extern "C" void run(const float* x, float* y, long count) {{
  for (long i = 0; i < count; ++i) y[i] = x[i];  // {step}
}}
"""


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty_like(x)
'''
EDIT = """\
A tile of the rows stays in the cache.

<<<<<<< SEARCH
STEP = "first"
=======
STEP = "tiled"
>>>>>>> REPLACE
<<<<<<< SEARCH
  for (long i = 0; i < count; ++i) y[i] = x[i];  // first
=======
  for (long i = 0; i < count; ++i) y[i] = x[i];  // tiled
>>>>>>> REPLACE
"""


def program(step: str) -> str:
    return PROGRAM.format(step=step)


def step_of(source: str) -> str:
    """Which step a program is; "" for the reference."""
    return next((step for step in STEPS if f'STEP = "{step}"' in source), "")


def apprentice(request: Request) -> Reply:
    """The script."""
    sections = parse(str(request.body["messages"][1]["content"]))
    task = next(s.title for s in sections if s.title.startswith("Your task"))
    if "first kernel" in task:
        return Reply(text=fenced(program("first")))
    if "better version" in task:
        return _mutated(_titled(sections, "The parent"))
    if "repair" in task:
        return _repaired(_titled(sections, "The program"), _titled(sections, "How it failed"))
    parents = [section for section in sections if section.title.startswith("Parent ")]
    if any(lack := _lack(parent) for parent in parents if parent.data and "STEP" in parent.data):
        return lack  # type: ignore[return-value] # the loop ends with one
    known = {step_of(parent.data or "") for parent in parents}
    return Reply(text=fenced(program("both")) if {"tiled", "vector"} <= known else "No idea.")


def _mutated(parent: Section) -> Reply:
    lack = _lack(parent)
    if lack is not None:
        return lack
    step = step_of(parent.data or "")
    if step == "first":
        return Reply(text=EDIT)
    return Reply(text=fenced(program("broken")) if step == "tiled" else "No idea.")


def _repaired(failed: Section, how: Section) -> Reply:
    if failed.data is None or failed.data.strip() != program("broken").strip():
        return refusal(400, "the prompt lacks the failed program", code="prompt_lacks")
    if ERROR not in (how.data or ""):
        return refusal(400, "the prompt lacks the last error", code="prompt_lacks")
    return Reply(text=fenced(program("vector")))


def _lack(parent: Section) -> Reply | None:
    """A refusal where a parent is not told in full."""
    step = step_of(parent.data or "")
    if (parent.data or "").strip() != program(step).strip():
        return refusal(400, "the prompt lacks the parent's source", code="prompt_lacks")
    if f"One call takes {1 / SPEEDUPS[step]:.3g} ms" not in parent.prose:
        return refusal(400, "the prompt lacks the parent's timings", code="prompt_lacks")
    return None


def _titled(sections: tuple[Section, ...], title: str) -> Section:
    return next(section for section in sections if section.title == title)


def verdict(request: EvaluationRequest) -> Evaluation | None:
    """For `world.Landscape`: what a step is worth; each has a cell of its own."""
    step = step_of(request.candidate.source)
    if not step:
        return None
    if step == "broken":
        return Evaluation(
            status=Status.WRONG_VALUE, rung=Rung.BUILD, reason="wrong_value", log=ERROR, cost_s=0.1
        )
    facts = KernelFacts(
        launches=1 + STEPS.index(step), own_kernel_share=1.0, reuse=Reuse.CACHE, work=64
    )
    return world.fit(SPEEDUPS[step], facts)
