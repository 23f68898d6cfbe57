"""How exact ways to multiply matrices are on a GPU, how fast, and what three rules say of them.

    python benchmarks/accuracy_of_products.py [JSON_FILE]

The rules: the referee's bound (16 times the error of the reference in its own precision, against
float64), KernelBench's allclose at 1e-4 (1e-2 for half precisions), and the speedup against the
fastest setting of torch that is no less exact. Needs an NVIDIA GPU and Triton.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
import triton.language as tl

from evaluator.referee.correctness import Bound, Deviation, bound_of

SIZE = 4096
BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 32
READINGS = 15
WAYS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
BUILT_IN = ("bf16x3", "bf16x6")
"""What the compiler does by the same names: `input_precision` of `tl.dot`."""
SOURCES: dict[str, Callable[..., torch.Tensor]] = {"positive": torch.rand, "zero mean": torch.randn}
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}


@triton.jit
def _split(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - Triton
    high = x.to(tl.bfloat16)
    rest = x - high.to(tl.float32)
    middle = rest.to(tl.bfloat16)
    return high, middle, (rest - middle.to(tl.float32)).to(tl.bfloat16)


@triton.jit  # type: ignore[untyped-decorator]
def _product(  # type: ignore[no-untyped-def]  # noqa: ANN202 - Triton
    a,  # noqa: ANN001
    b,  # noqa: ANN001
    c,  # noqa: ANN001
    size: tl.constexpr,
    m: tl.constexpr,
    n: tl.constexpr,
    k: tl.constexpr,
    way: tl.constexpr,
    narrow: tl.constexpr,
    by_hand: tl.constexpr,
):
    rows = tl.program_id(0) * m + tl.arange(0, m)
    columns = tl.program_id(1) * n + tl.arange(0, n)
    inner = tl.arange(0, k)
    left = a + rows[:, None] * size + inner[None, :]
    right = b + inner[:, None] * size + columns[None, :]
    total = tl.zeros((m, n), tl.float16 if narrow else tl.float32)
    for _ in range(0, size, k):
        x, y = tl.load(left), tl.load(right)
        if by_hand:
            x0, x1, x2 = _split(x)
            y0, y1, y2 = _split(y)
            if way == "bf16x6":
                total += tl.dot(x1, y1) + tl.dot(x0, y2) + tl.dot(x2, y0)
            total += tl.dot(x0, y1) + tl.dot(x1, y0)
            total += tl.dot(x0, y0)
        elif narrow:
            total = tl.dot(x, y, acc=total, out_dtype=tl.float16)
        elif way == "own":
            total = tl.dot(x, y, acc=total)
        else:
            total = tl.dot(x, y, acc=total, input_precision=way)
        left += k
        right += k * size
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(c.dtype.element_ty))


def triton_product(
    way: str, *, narrow: bool = False, by_hand: bool = False
) -> Callable[..., torch.Tensor]:
    """Return a product by the kernel above, in one of its ways."""

    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a)
        size = len(a)
        blocks = (BLOCK_M, BLOCK_N, BLOCK_K)
        grid = (size // BLOCK_M, size // BLOCK_N)
        ways = (way, narrow, by_hand)
        _product[grid](a, b, out, size, *blocks, *ways, num_warps=8, num_stages=2)
        return out

    return multiply


def torch_product(*, tf32: bool) -> Callable[..., torch.Tensor]:
    """Return torch's product under one setting."""

    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return a @ b

    return multiply


def deviation_of(got: torch.Tensor, exact: torch.Tensor) -> Deviation:
    """Return how far a product is from the exact one, relative to that one's RMS."""
    scale = float(exact.square().mean().sqrt())
    error = got.double() - exact
    return Deviation(
        rms=float(error.square().mean().sqrt()) / scale,
        peak=float(error.abs().max()) / scale,
        scale=scale,
        highest=float(exact.abs().max()) / scale,
        wrong_class=0,
        free=0.0,
        first=0,
    )


def time_ms(multiply: Callable[..., torch.Tensor], a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the median time of a call, in ms, on a cold cache."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    times: list[float] = []
    for _ in range(READINGS):
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        multiply(a, b)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return median(times[2:])


def methods_of(dtype: str) -> dict[str, Callable[..., torch.Tensor]]:
    """Return what is compared at a precision; the first one is the reference."""
    if dtype == "float32":
        return {
            "cuBLAS fp32": torch_product(tf32=False),
            "cuBLAS TF32": torch_product(tf32=True),
            **{f"Triton {way}": triton_product(way, by_hand=way in BUILT_IN) for way in WAYS},
            **{f"Triton {way}, built in": triton_product(way) for way in BUILT_IN},
        }
    found = {f"cuBLAS {dtype}": torch_product(tf32=False), "Triton": triton_product("own")}
    if dtype == "float16":
        found["Triton, fp16 sums"] = triton_product("own", narrow=True)
    return found


def rows_of(dtype: str, source: str) -> list[dict[str, Any]]:
    """Measure every method on one kind of input."""
    torch.manual_seed(1)
    a, b = (SOURCES[source](SIZE, SIZE, device="cuda").to(DTYPES[dtype]) for _ in range(2))
    exact = a.double() @ b.double()
    methods = methods_of(dtype)
    reference = next(iter(methods.values()))(a, b)
    bound: Bound = bound_of([deviation_of(reference, exact)], dtype)
    rows: list[dict[str, Any]] = []
    for name, multiply in methods.items():
        try:
            got = multiply(a, b)
        except Exception as error:  # noqa: BLE001 - what a Triton version lacks
            rows.append({"method": name, "missing": f"{type(error).__name__}: {error}"[:200]})
            continue
        found = deviation_of(got, exact)
        tolerance = TOLERANCE[dtype]
        rows.append(
            {
                "method": name,
                "rms": found.rms,
                "peak": found.peak,
                "right": found.rms <= bound.rms and found.peak <= bound.peak,
                "kernelbench": torch.allclose(got, reference, atol=tolerance, rtol=tolerance),
                "ms": time_ms(multiply, a, b),
            }
        )
    rivals = [row for row in rows if row["method"].startswith("cuBLAS") and "ms" in row]
    for row in rows:
        if "ms" in row:
            fair = [rival["ms"] for rival in rivals if rival["rms"] <= 1.05 * row["rms"]]
            row["speedup"] = rows[0]["ms"] / row["ms"]
            # Who is more exact than all of torch's settings meets the most exact one, the first.
            row["matched"] = min(fair, default=rows[0]["ms"]) / row["ms"]
    return [{"dtype": dtype, "inputs": source, "bound_rms": bound.rms, **row} for row in rows]


def table_of(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| precision | inputs | method | rms error | largest | referee | allclose | ms | speedup "
        "| matched |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = f"| {row['dtype']} | {row['inputs']} | {row['method']} |"
        if "missing" in row:
            lines.append(f"{name} not in this version: {row['missing'].split(':')[0]} |||||||")
            continue
        lines.append(
            f"{name} {row['rms']:.1e} | {row['peak']:.1e} | {'right' if row['right'] else 'wrong'} "
            f"| {'passes' if row['kernelbench'] else 'fails'} | {row['ms']:.2f} "
            f"| {row['speedup']:.2f}x | {row['matched']:.2f}x |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print a table; write the rows as JSON where a file is named."""
    rows = [row for dtype in DTYPES for source in SOURCES for row in rows_of(dtype, source)]
    about = {"device": torch.cuda.get_device_name(), "size": SIZE}
    about |= {"torch": torch.__version__, "triton": triton.__version__}
    print(about)
    print(table_of(rows))
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
