"""The operator "rewrite": one structural edit of a parent's Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archives.candidate import Candidate
from operators.operator import OperatorContext, Parent, Proposal
from operators.rewrites.registry import REWRITES
from operators.rewrites.rewrite import Rewrite
from operators.rewrites.source import parse_module
from operators.settings import Setting

__all__ = ["REWRITE", "RewriteOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOperator:
    """Applies one of the rewrites that fit, drawn at random.

    Attributes:
        rewrites: Those to choose from.
        settings: None may be set.
    """

    name: str = "rewrite"
    num_parents: tuple[int, int] = (1, 1)
    from_failures: bool = False
    rewrites: tuple[Rewrite, ...] = REWRITES
    settings: tuple[Setting, ...] = ()

    def applies(self, context: OperatorContext) -> bool:
        """Tell whether candidates run on a GPU: there are Triton kernels then."""
        return context.device == "cuda"

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose the parent with one edit, rather one that this problem has not seen.

        Args:
            parents: One.
            context: Its `known` ids tell which programs are new.
            rng: Chooses the rewrite and its place.

        Returns:
            The child. Reasons: "no_triton_kernel", or "no_rewrite_fits" where no rewrite applies
            or all that were drawn are known.
        """
        module = parse_module(parents[0].candidate.source)
        if module is None:
            return Proposal(source=None, reason="no_triton_kernel")
        for index in rng.permutation(len(self.rewrites)):
            rewrite = self.rewrites[int(index)]
            child = rewrite.apply(module, rng)
            if child is None:
                continue
            if Candidate.of(context.problem.key, child.source).program_id not in context.known:
                return Proposal(source=child.source, note=f"{rewrite.name}: {child.note}")
        return Proposal(source=None, reason="no_rewrite_fits")


REWRITE = RewriteOperator()
