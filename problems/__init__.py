"""Problems: what is to be made faster.

Importing it loads no torch; `problems.trace.trace` does, when it is called.
"""

from problems.catalogue import load_level, parse_ids
from problems.errors import ProblemError
from problems.footprint import tensor_bytes
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.loaders import load_file, load_folder
from problems.problem import Domain, DomainKind, Problem, Scale

__all__ = [
    "Domain",
    "DomainKind",
    "Node",
    "OperatorGraph",
    "Problem",
    "ProblemError",
    "Scale",
    "TensorSpec",
    "load_file",
    "load_folder",
    "load_level",
    "parse_ids",
    "tensor_bytes",
]
