"""Whose a kernel on a GPU is, by the name under which it ran.

A kernel is the candidate's own where the candidate wrote it: Triton noted its name when it compiled
it, or CUDA C++ of the candidate declares it. Others are a library's where their name sounds like
one; of those that remain, nobody else could have brought them.

Covered: an honest candidate whose kernel is called `sgemm_tiled` or `conv_fprop`, and one that
calls a library although it gave a kernel of its own the name of the library's: what carries a name
as NVIDIA's libraries and torch give them is theirs, whoever declares it. Not covered: a candidate
that passes a library's kernel off as its own by other means, in its own process; no verdict rests
on this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Declared", "declared_in", "is_library"]

_SOUNDS = re.compile(
    r"at::|at_cuda|c10::|cublas|cudnn|cutlass|cufft|cusparse|cub::|cub_|thrust|gemm|gemv|"
    r"nvjet|xmma|implicit_convolve|wgrad|dgrad|fprop|winograd|flash_fwd|fmha|pytorch_|nccl|"
    r"vectorized_elementwise|elementwise_kernel|softmax_warp|Memcpy|Memset|splitKreduce",
)
"""What a name of a library's kernel has somewhere, and that of an own one may have by chance."""
_NAMES = re.compile(
    r"(?:kepler|maxwell|pascal|volta|turing|ampere|hopper|blackwell|sm\d{2,3})_|"
    r"nvjet|cutlass|cublas|cudnn|cufft|cusparse|cusolver|xmma|nccl|pytorch_|fmha_cutlass|"
    r"implicit_convolve_|splitKreduce_|softmax_warp_(?:forward|backward)|Memcpy|Memset|"
    r"gemv2[NT]_|gemvNSP_|gemmSN_|gemmk1_|gemm_kernel1x1_"
)
"""Beginnings of names that kernels of NVIDIA's libraries and of torch have, outside a namespace."""
_NAMESPACES = re.compile(
    r"(?:at|at_cuda_\w+|c10|cub|std|internal|thrust|flash|cask\w*|cu(?:blas|dnn|fft|sparse|tlass|"
    r"solver|tensor)\w*|nccl\w*|pytorch_\w+)"
)
"""Namespaces of the same."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IN_BRACKETS = r"\((?:[^()]|\([^()]*\))*\)"
_KERNEL = re.compile(
    r"\b__global__\b\s*"
    rf"(?:(?:void|static|inline|extern|\"C\"|__\w+__)(?!\w)\s*(?:{_IN_BRACKETS}\s*)?)*"
    r"([A-Za-z_]\w*)\s*\("
)
_NAMESPACE = re.compile(r"\bnamespace\s+(\w+(?:\s*::\s*\w+)*)\s*\{")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::")
_HEAD = re.compile(r"(?:void\s+)?((?:\w+::)*)(\w+)\s*(?=[<(]|$)")
"""A name as the profiler writes it, without template arguments and parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What CUDA C++ of a candidate declares.

    Attributes:
        names: Of its kernels, without namespaces.
        namespaces: All namespaces that it opens.
    """

    names: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()


def declared_in(texts: Iterable[str]) -> Declared:
    """Find the kernels that CUDA C++ declares; comments are left aside.

    Args:
        texts: Texts of which some may be CUDA C++.
    """
    names: set[str] = set()
    namespaces: set[str] = set()
    for text in texts:
        if "__global__" in text:
            code = _COMMENT.sub(" ", text)
            names.update(_KERNEL.findall(code))
            for path in _NAMESPACE.findall(code):
                namespaces.update(re.findall(r"\w+", path))
    return Declared(names=frozenset(names), namespaces=frozenset(namespaces))


def is_library(
    name: str, compiled: frozenset[str] = frozenset(), declared: Declared | None = None
) -> bool:
    """Tell whether a kernel belongs to torch or to a library, by its name.

    Args:
        name: The kernel's, demangled, such as "void mine::f<4>(float*)".
        compiled: Names of kernels that Triton noted when it compiled them.
        declared: What the candidate's CUDA C++ declares.
    """
    return not _is_own(name, compiled, declared or Declared()) and _SOUNDS.search(name) is not None


def _is_own(name: str, compiled: frozenset[str], declared: Declared) -> bool:
    """Whether the candidate wrote a kernel of this name, and no library has one of it."""
    head = _HEAD.match(_ANONYMOUS.sub("", name))
    if head is None:
        return False
    spaces = [space for space in head[1].split("::") if space]
    if _NAMES.match(head[2]) or any(_NAMESPACES.fullmatch(space) for space in spaces):
        return False
    if name in compiled:
        return True
    return head[2] in declared.names and declared.namespaces.issuperset(spaces)
