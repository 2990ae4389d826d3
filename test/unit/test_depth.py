"""Tests that programs of any depth compile, in linear time: chains, trees, sums of many inputs, nested concatenations."""

import sys
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch_mlir import ir

import lamina
from lamina.core.target import Target
from lamina.dialects import context
from lamina.passes.infra.diagnostics import verify
from lamina.passes.infra.pipeline import PassFailure, run
from lamina.passes.plan.in_place import pairs_in_place
from lamina.targets import backend
from lamina.targets.levels import pipeline
from lamina.targets.module import keep_kernels

T = "tensor<33x65xf32>"
MAP = "affine_map<(d0, d1) -> (d0, d1)>"
MIXED = ("math.sin", "arith.mulf", "arith.addf", "arith.maximumf", "math.absf", "arith.divf")
CHEAP = ("arith.mulf", "arith.addf", "arith.maximumf")


def chain(length: int, ops: tuple[str, ...]) -> str:
    """Returns a function of `length` pointwise ops, each of which reads the result of the one before and the second argument."""
    lines = [f"func.func @main(%v0: {T}, %w: {T}) -> {T} {{", f"  %e = tensor.empty() : {T}"]
    for i in range(length):
        op = ops[i % len(ops)]
        two = op.startswith("arith")
        inputs = f"%v{i}, %w : {T}, {T}" if two else f"%v{i} : {T}"
        maps = ", ".join([MAP] * (3 if two else 2))
        lines += [
            f'  %v{i + 1} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}} '
            f"ins({inputs}) outs(%e : {T}) {{",
            f"  ^bb0(%a: f32, {'%b: f32, ' if two else ''}%c: f32):",
            f"    %r = {op} {'%a, %b' if two else '%a'} : f32",
            f"    linalg.yield %r : f32\n  }} -> {T}",
        ]
    return "\n".join([*lines, f"  return %v{length} : {T}", "}"])


def lowered(text: str, target: str) -> ir.Module:
    module = ir.Module.parse(text, context())
    run(pipeline("linalg", "tile", target=target), module)
    verify(module)
    return module


@pytest.fixture
def shallow() -> Iterator[None]:
    """Sets a stack limit that is enough for the program's own depth but not for the graph's."""
    limit, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 400)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("target", ["cpu", "nvvm:sm_90a"])
def test_chain_lowers_to_tile(target: str) -> None:
    module = lowered(chain(1100, MIXED), target)
    kernels = [op for op in module.body.operations if "tile.grid" in op.operation.attributes]
    assert 1 <= len(kernels) < 20  # parts of the chain that are alike are one kernel


def test_chain_of_a_thousand_reaches_ptx() -> None:
    module = lowered(chain(1200, MIXED), "nvvm:sm_90a")
    keep_kernels(module)
    levels = dict(backend(Target.parse("nvvm:sm_90a")).below(module))
    assert ".entry" in levels["ptx"]()


def test_time_is_linear() -> None:
    def seconds(length: int) -> float:
        start = time.process_time()
        lowered(chain(length, CHEAP), "cpu")
        return time.process_time() - start

    seconds(50)  # what is done once
    short, long = seconds(250), seconds(2000)
    assert long < 8 * short * 2.5, (short, long)


def test_time_of_many_inputs_is_linear() -> None:
    """The inputs that the sum of all may be written over are found in one walk."""

    def seconds(count: int) -> float:
        lines = [f"  %e = tensor.empty() : {T}"]
        for i in range(1, count):
            lines += [
                f'  %s{i} = linalg.generic {{indexing_maps = [{MAP}, {MAP}, {MAP}], iterator_types = ["parallel", "parallel"]}} '
                f"ins({f'%s{i - 1}' if i > 1 else '%v0'}, %v{i} : {T}, {T}) outs(%e : {T}) {{",
                f"  ^bb0(%a: f32, %b: f32, %c: f32):\n    %r = arith.addf %a, %b : f32\n    linalg.yield %r : f32\n  }} -> {T}",
            ]
        inputs = ", ".join(f"%v{i}: {T}" for i in range(count))
        text = "\n".join([f"func.func @main({inputs}) -> {T} {{", *lines, f"  return %s{count - 1} : {T}", "}"])
        module = ir.Module.parse(text, context())
        with module.context:
            start = time.process_time()
            assert pairs_in_place(module.body.operations[0].operation, [(65, 1)] * (count + 1)) == {(i, 0) for i in range(count)}
            return time.process_time() - start

    seconds(20)  # what is done once
    short, long = seconds(200), seconds(1600)
    assert long < 8 * short * 2.5, (short, long)


def adds(*inputs: Tensor) -> Tensor:
    out = inputs[0]
    for x in inputs[1:]:
        out = out + x
    return out


def tree(*inputs: Tensor) -> Tensor:
    level = list(inputs)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [torch.relu(a + b) for a, b in pairs] + level[len(level) & ~1 :]
    return level[0]


def concatenations(*inputs: Tensor) -> Tensor:
    out = inputs[0]
    for x in inputs[1:]:
        out = torch.cat([out, x * 2])
    return out


def concatenation(*inputs: Tensor) -> Tensor:
    return torch.cat([x * 2 for x in inputs])


def prepended(*inputs: Tensor) -> Tensor:
    out = inputs[0]
    for x in inputs[1:]:
        out = torch.cat([x, out + 1])
    return out


def lattice(x: Tensor) -> Tensor:
    """Computes a chain in which every value is read twice."""
    a, b = x, x * 2
    for _ in range(120):
        a, b = torch.tanh(a + b), a * 0.5 - b
    return a + b


def pads(x: Tensor) -> Tensor:
    for i in range(100):
        x = torch.nn.functional.pad(x, (1, 0)) if i % 2 else x[:, :-1] + 1
    return x


def steps(x: Tensor) -> Tensor:
    for i in range(600):
        x = x * 1.01 if i % 3 == 0 else x + 0.5 if i % 3 == 1 else torch.clamp(x, -2, 2)
    return x


CASES: list[tuple[Callable[..., Tensor], tuple[int, ...], int]] = [
    (adds, (3, 127), 200),
    (adds, (5,), 1100),
    (tree, (127,), 200),
    (concatenations, (1, 3), 180),
    (concatenation, (2, 3), 200),
    (prepended, (1, 3), 200),
    (lattice, (3, 127), 1),
    (pads, (3, 65), 1),
    (steps, (33, 65), 1),
]


@pytest.mark.parametrize(("function", "shape", "count"), CASES, ids=lambda v: getattr(v, "__name__", None))
def test_values(function: Callable[..., Tensor], shape: tuple[int, ...], count: int) -> None:
    inputs = [torch.randn(shape) for _ in range(count)]
    got = lamina.compile(function, tuple(inputs), options={"cache": False})(*inputs)
    want = function(*(x.double() for x in inputs))
    eager = (function(*inputs) - want).abs().max()
    assert (got - want).abs().max() <= 2 * eager + 1e-6


def test_chain_through_torch_compile() -> None:
    x = torch.randn(33, 65)
    got = torch.compile(steps, backend="lamina", options={"cache": False})(x)
    want = steps(x.double())
    assert (got - want).abs().max() <= 2 * (steps(x) - want).abs().max() + 1e-6


def test_recursion_error_is_one_short_line() -> None:
    """A pass that runs out of stack reports it in one line, without thousands of frames."""

    class Deep:
        def apply(self, *_: object) -> None:
            self.apply()

    import traceback

    from lamina.passes.infra.pipeline import Step
    from lamina.passes.infra.pipeline_text import PassCall

    class Own:
        def run(self, _: ir.Module) -> None:
            Deep().apply()

    step = Step(PassCall("lamina-deep"), "lamina-deep", own_pass=Own())  # type: ignore[arg-type]
    module = ir.Module.parse("module {}", context())
    with pytest.raises(PassFailure) as caught:
        run([step], module)
    assert "nested too deeply" in caught.value.message and "\n" not in str(caught.value)
    assert len(traceback.format_exception(caught.value)) < 100
