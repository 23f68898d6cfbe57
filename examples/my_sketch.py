"""A sketch of one's own: gated units, such as SwiGLU, in one pass over memory.

A sketch turns an operator graph into the text of a program, or into None where the graph is another
one. Copy this file, change the three parts, and name its operator in a run:

    PYTHONPATH=examples evokernel run --problem-file examples/my_gated_unit.py --device cuda \
        --set 'operators.use=["my_sketch:OPERATOR", "sketch", "tune"]'

`docs/sketches.md` says more.
"""

from archives.configuration import Configuration, Space
from operators.sketch import SketchOperator
from operators.sketches.module import local_names
from operators.sketches.sketch import Sketch
from operators.sketches.triton.program import TritonProgram, write_program
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import Problem

# 1. What may vary, and what to begin with. The search tries other points; num_warps goes to Triton.
SPACE: Space = {
    "BY_ROW": (True, False),  # structure: tiles within a row, or of all elements in a row
    "EVICT": ("", "evict_first"),
    "BLOCK": (256, 512, 1024, 2048),
    "num_warps": (2, 4, 8),
}
DEFAULT: Configuration = {"BY_ROW": True, "EVICT": "evict_first", "BLOCK": 1024, "num_warps": 4}

# 2. The kernel. What depends on the configuration is a tl.constexpr argument; sums are in float32.
KERNEL = """
@triton.jit
def gate_kernel(
    x, out, COUNT: tl.constexpr, HALF: tl.constexpr, GATE: tl.constexpr, VALUE: tl.constexpr,
    BY_ROW: tl.constexpr, EVICT: tl.constexpr, BLOCK: tl.constexpr,
):
    if BY_ROW:
        row = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = column < HALF
    else:
        index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        row, column = index // HALF, index % HALF
        inside = index < COUNT
    start = x + row * (2 * HALF) + column
    gate = tl.load(start + GATE, inside, 0.0, eviction_policy=EVICT).to(tl.float32)
    value = tl.load(start + VALUE, inside, 0.0, eviction_policy=EVICT).to(tl.float32)
    result = (ACTIVATED) * value
    tl.store(out + row * HALF + column, result.to(out.dtype.element_ty), inside)
"""
ACTIVATED = {
    "aten.silu.default": "gate * tl.sigmoid(gate)",
    "aten.sigmoid.default": "tl.sigmoid(gate)",
    "aten.gelu.default": "0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))",
}
LAUNCH = """
out = torch.empty({shape}, dtype={name}.dtype, device={name}.device)
tiles = ({rows}, triton.cdiv({half}, CONFIG["BLOCK"]))
if not CONFIG["BY_ROW"]:
    tiles = (triton.cdiv({count}, CONFIG["BLOCK"]),)
gate_kernel[tiles]({name}, out, {count}, {half}, {gate}, {value}, **CONFIG)
return out
"""


# 3. The pattern: two halves, one of them activated, their product. Any shape, not one problem.
def write(problem: Problem, graph: OperatorGraph) -> str | None:
    """Return the text of a program, or None where the graph is no gated unit."""
    names = local_names(problem, graph)
    operations = [node.op for node in graph.nodes]
    if names is None or len(operations) != 3 or graph.outputs != ("node2",):
        return None
    split, activation, product = graph.nodes
    halves = {"node0": 0, "node0.1": 1}
    x, out = graph.spec("input0"), product.outputs[0]
    if operations != ["aten.split.Tensor", activation.op, "aten.mul.Tensor"]:
        return None
    if activation.op not in ACTIVATED or activation.keywords or split.inputs != ("input0",):
        return None
    gate = halves.pop(activation.inputs[0], None)
    if gate is None or set(product.inputs) != {"node1", *halves}:
        return None
    half, rows = out.shape[-1], out.numel // out.shape[-1]
    if not isinstance(x, TensorSpec) or x.shape != (*out.shape[:-1], 2 * half):
        return None
    sizes = {"rows": rows, "count": out.numel, "half": half, "shape": out.shape}
    places = {"gate": gate * half, "value": half - gate * half}
    launch = LAUNCH.format(name=names["input0"], **sizes, **places)
    program = TritonProgram(
        summary="A gated unit: both halves of a row are read once.",
        space=SPACE,
        configuration=DEFAULT,
        kernels=KERNEL.replace("ACTIVATED", ACTIVATED[activation.op]),
        values=("input0",),
        body=tuple(launch.strip().splitlines()),
    )
    return write_program(problem, graph, program)


GATED_UNIT = Sketch(name="gated-unit", device="cuda", write=write)
OPERATOR = SketchOperator(name="my_sketch", sketches=(GATED_UNIT,))
