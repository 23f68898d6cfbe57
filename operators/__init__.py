"""Operators: how children are made.

The protocol is here; the operators themselves are in `operators.registry`, which is imported where
they are needed.
"""

from operators.operator import Operator, OperatorContext, Parent, Proposal

__all__ = ["Operator", "OperatorContext", "Parent", "Proposal"]
