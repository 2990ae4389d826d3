"""Tests the import of FX graphs to linalg: values by an independent executor, external calls, locations, aliases."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import linalg_runner
import pytest
import torch
import torch.nn.functional as F
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor, fx
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.options import Options
from lamina.core.program_json import codec
from lamina.frontend.calls.interface import Interface
from lamina.frontend.decompositions.table import table
from lamina.frontend.fx.aliases import ConstantResult, Empty, ViewResult
from lamina.frontend.fx.locations import where
from lamina.frontend.importing.importer import import_graph
from lamina.frontend.importing.linalg import _failure
from lamina.frontend.rewrites.normalize import Normalized, normalize
from lamina.passes.simplify.extern import ExternPass


def captured(fn: Callable[..., Any], inputs: Sequence[Tensor]) -> fx.GraphModule:
    """Returns the graph that AOTAutograd passes to a compiler."""
    found: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: Any) -> Any:
        found.append(gm)
        return make_boxed_func(gm.forward)

    with torch.no_grad():
        aot_function(fn, fw_compiler=keep, decompositions=table())(*inputs)
    return found[0]


def capture(fn: Callable[..., Any], inputs: Sequence[Tensor]) -> Normalized:
    return normalize(captured(fn, inputs))


def linalg(fn: Callable[..., Any], inputs: Sequence[Tensor], options: Options | None = None) -> ir.Module:
    return import_graph(capture(fn, inputs).gm, options=options)


def externs(module: ir.Module) -> list[dict[str, str]]:
    functions = [op.operation for op in module.body.operations if "graph.callee" in op.operation.attributes]
    return [{name: str(f.attributes[name]) for name in f.attributes if name.startswith("graph.")} for f in functions]


def x(*shape: int) -> Tensor:
    return torch.randn(*shape)


LOWERED: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "pointwise": (lambda a: ((a + 1) * 2).relu().sub(0.5).sigmoid(), [x(3, 17)]),
    "broadcast": (lambda a, b: a[:, None] * b + b.sum(1), [x(5, 3), x(3, 3)]),
    "softmax": (lambda a: torch.softmax(a, -1), [x(5, 33)]),
    "layer norm": (lambda a, w: F.layer_norm(a, (33,), w), [x(5, 33), x(33)]),
    "views": (lambda a: a.view(2, 7, 3, 4).transpose(1, 2).reshape(2, 3, 28)[:, 1:, ::3] * 2, [x(2, 7, 12)]),
    "where": (lambda a: torch.where(a > 0, a, -1.0).masked_fill(a < -1, 7.0), [x(3, 17)]),
    "integers": (lambda a: (a // 3, a % 4, a * 2 - 1, -a, a.clamp(2, 5)), [torch.arange(-9, 9).view(3, 6)]),
    "small integers": (lambda a: a + a, [torch.arange(-9, 9, dtype=torch.int8)]),
    "booleans": (lambda a, b: (a & b, a | ~b, a ^ b, a.any(1), a.sum()), [x(3, 5) > 0, x(3, 5) > 0]),
    "casts": (lambda a: (a.int(), a.bool(), a.double(), a.half(), (a > 0).float()), [x(3, 5)]),
    "argmax": (lambda a: a.argmax(1), [x(5, 9)]),
    "embedding": (F.embedding, [torch.tensor([[0, 3], [9, 1]]), x(10, 5)]),
    "gather": (lambda a, i: a.gather(1, i), [x(3, 9), torch.tensor([[0, 8], [1, 1], [5, 2]])]),
    "constants": (lambda a: a + torch.arange(5) + torch.tensor([1.0, 2, 3, 4, 5]) * 0.3, [x(3, 5)]),
    "half constants": (lambda a: a * torch.tensor([0.5, 1.5]).bfloat16(), [x(3, 2).bfloat16()]),
    "scalars": (lambda a, b: a * b + 2, [torch.tensor(3.0), x(4)]),
    "nothing": (lambda a: a.sum(1), [x(3, 0)]),
    "float64": (lambda a: torch.softmax(a * 0.1, 0).log(), [x(5, 3).double()]),
}


@pytest.mark.parametrize("name", LOWERED)
def test_values(name: str) -> None:
    fn, inputs = LOWERED[name]
    module = linalg(fn, inputs)
    assert externs(module) == []
    want = fn(*inputs)
    want = [want] if isinstance(want, Tensor) else list(want)
    for got, expected in zip(linalg_runner.run(module, inputs), want, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_library_calls() -> None:
    module = linalg(lambda a, w, b: F.linear(a, w, b), [x(4, 8), x(16, 8), x(16)])
    (call,) = externs(module)
    assert call == {
        "graph.callee": '"aten.addmm.default"',
        "graph.reason": '"library"',
        "graph.args": "[unit, unit, unit]",
        "graph.kwargs": "{}",
        "graph.strides": "[array<i64: 16, 1>]",
    }


def test_fallback_with_several_results() -> None:
    module = linalg(lambda a: a.sort(1), [x(4, 900)])
    (call,) = externs(module)
    assert call["graph.callee"] == '"aten.sort.default"' and call["graph.reason"] == '"fallback"'
    assert call["graph.strides"] == "[array<i64: 900, 1>, array<i64: 900, 1>]"
    ExternPass().run(module)
    assert "graph.extern" in str(module) and "func.call" not in str(module)


def test_none_among_results_and_lists_among_arguments() -> None:
    a, w = x(1, 3, 8, 8), x(4, 3, 3, 3)

    def fn(g: Tensor, a: Tensor, w: Tensor) -> Any:
        grads = torch.ops.aten.convolution_backward(g, a, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False])
        return grads[1]

    (call,) = externs(linalg(fn, [x(1, 4, 6, 6), a, w]))
    assert call["graph.strides"] == "[none, array<i64: 27, 9, 3, 1>, none]"
    assert call["graph.args"].startswith("[unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false")
    (call,) = externs(linalg(lambda a, b: torch.cat([a, b]), [torch.ones(2).to(torch.uint64), torch.ones(3).to(torch.uint64)]))
    assert call["graph.callee"] == '"aten.cat.default"' and call["graph.args"] == "[[unit, unit]]"


def test_views_of_what_does_not_lower_are_copies() -> None:
    (call,) = externs(linalg(lambda a: torch.cat([a.view(2, 2)]), [torch.ones(4).to(torch.uint64)]))[:1]
    assert call["graph.callee"] == '"aten.view_copy.default"'


def test_complex_tensors_are_real_ones() -> None:
    """Calls state which of their tensors are complex; views of complex tensors as real ones have the same values."""
    module = linalg(lambda a: torch.view_as_real(torch.fft.ifft(a * 2)), [x(3, 4).to(torch.complex64)])
    (call,) = externs(module)
    assert call["graph.callee"] == '"complex.aten._fft_c2c.default"' and call["graph.complex"] == "array<i1: true, true>"
    assert call["graph.strides"] == "[array<i64: 8, 2, 1>]" and call["graph.needs"] == "[array<i64: 8, 2, 1>]"
    assert "complex<" not in str(module) and "%arg0: tensor<3x4x2xf32>" in str(module)


def test_random_numbers_have_an_effect() -> None:
    calls = externs(linalg(lambda a: torch.poisson(a) + torch.poisson(a), [x(4).abs()]))
    assert len(calls) == 2 and all("graph.effect" in call for call in calls)


def test_unsigned_results_say_so() -> None:
    (call,) = externs(linalg(lambda a: a.median(), [torch.ones(3000, dtype=torch.uint8)]))
    assert call["graph.dtypes"] == call["graph.takes"] == '["u8"]'


def test_dtypes_that_nothing_carries() -> None:
    with pytest.raises(CompileError, match=r"dtype torch.uint16 .*convert it"):
        linalg(lambda a: a.to(torch.float32), [torch.ones(4).to(torch.uint16)])


def test_an_op_whose_lowering_fails_becomes_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from lamina.frontend.fx import support

    monkeypatch.setattr(support, "LOWERED", support.LOWERED | {"aten.linalg_inv_ex.default", "aten.linalg_det.default"})
    (call,) = externs(linalg(lambda a: torch.linalg.inv_ex(a + 1)[0] * 2, [x(3, 3)]))
    assert call["graph.callee"] == '"aten.linalg_inv_ex.default"' and call["graph.reason"] == '"fallback"'


def test_strict_names_the_op_and_the_line() -> None:
    line = test_strict_names_the_op_and_the_line.__code__.co_firstlineno + 4

    def fn(a: Tensor) -> Any:
        return (a + 1).sort().values

    gm = torch.export.export(_Module(fn), (x(400),), strict=False).run_decompositions(table()).graph_module
    with pytest.raises(CompileError, match=r"aten.sort.default has no lowering") as caught:
        import_graph(normalize(gm).gm, options=Options(strict=True))
    assert caught.value.where == f"{__file__}:{line}"


def test_locations_name_the_op_and_the_users_line() -> None:
    line = test_locations_name_the_op_and_the_users_line.__code__.co_firstlineno + 4

    def fn(a: Tensor) -> Any:
        return F.gelu((a + 1).relu())

    gm = torch.export.export(_Module(fn), (x(4),), strict=False).run_decompositions(table()).graph_module
    text = import_graph(normalize(gm).gm).operation.get_asm(enable_debug_info=True, use_local_scope=True)
    assert f'loc("aten.add.Tensor"("{__file__}":{line}:0))' in text
    assert f'loc("aten.relu.default"("{__file__}":{line}:0))' in text
    assert f'loc("aten.gelu.default"("aten.erf.default"("{__file__}":{line}:0)))' in text


def test_modules_of_torch_alone_have_their_path_for_a_line() -> None:
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Tanh()))
    gm = torch.export.export(model, (x(4),), strict=False).run_decompositions(table()).graph_module
    text = import_graph(normalize(gm).gm).operation.get_asm(enable_debug_info=True, use_local_scope=True)
    assert 'loc("aten.relu.default"("0: ReLU":0:0))' in text and 'loc("aten.tanh.default"("1.0: Tanh":0:0))' in text
    node = next(n for n in gm.graph.nodes if "tanh" in n.name)
    assert where(node) == "1.0: Tanh"


def test_a_failure_is_blamed_on_the_op_that_was_decomposed_into() -> None:
    for location in ('loc("aten.gelu.default"("aten.erf.default"("m.py":3:0)))', 'loc("aten.erf.default"("m.py":3:0))'):
        assert _failure([("no", location)], "").blames("aten.erf.default", ("m.py", 3))
    for location in ('loc("aten.gelu.default"("aten.erf.default"))', 'loc("aten.erf.default")'):
        assert _failure([("no", location)], "").blames("aten.erf.default", None)


class _Module(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        from lamina.frontend.capture.as_module import _named_forward

        self.fn = _named_forward(fn)

    def forward(self, *args: Tensor) -> Any:
        return self.fn(*args)


def test_outputs_that_share_memory_are_views_of_one_result() -> None:
    def fn(a: Tensor) -> Any:
        b = a + 1
        return b, b.t(), b[1], b, a.view(-1), a[:, 1:], None, 3

    outputs = capture(fn, [x(3, 4)]).interface.outputs
    assert outputs == (
        ViewResult("result", 0, 0, torch.float32, (3, 4), (4, 1)),
        ViewResult("result", 0, 0, torch.float32, (4, 3), (1, 4)),
        ViewResult("result", 0, 4, torch.float32, (4,), (1,)),
        ViewResult("result", 0, 0, torch.float32, (3, 4), (4, 1)),
        ViewResult("input", 0, 0, torch.float32, (12,), (1,)),
        ViewResult("input", 0, 1, torch.float32, (3, 3), (4, 1)),
        *[ConstantResult(None), ConstantResult(3)][: len(outputs) - 6],
    )


def test_a_lone_slice_of_a_result_with_gaps_keeps_its_strides() -> None:
    (output,) = capture(lambda a: (a + 1)[:, ::2], [x(3, 8)]).interface.outputs
    assert output == ViewResult("result", 0, 0, torch.float32, (3, 4), (8, 2))


def test_large_constants_become_arguments() -> None:
    graph = fx.Graph()
    argument = graph.placeholder("a")
    argument.meta["val"] = x(2000)
    total = argument
    for name in ("large", "large", "small"):
        constant = graph.get_attr(name)
        total = graph.call_function(torch.ops.aten.add.Tensor, (total, constant))
        total.meta["val"] = x(2000)
    graph.output((total,))
    module = fx.GraphModule({"large": x(2000), "small": torch.tensor(2.0)}, graph)
    found = normalize(module)
    assert found.interface.captured == ("large",) and found.interface.inputs == (0,)
    assert [t.shape for t in found.interface.tensors(module)] == [(2000,)]
    assert [n.op for n in found.gm.graph.nodes] == [
        "placeholder", "placeholder", "call_function", "call_function", "call_function", "call_function", "output",
    ]  # fmt: skip
    assert torch.ops.aten.full.default in [n.target for n in found.gm.graph.nodes]  # the small one


def test_equal_graphs_have_equal_fingerprints() -> None:
    from lamina.frontend.compiling.fingerprint import fingerprint

    def fn(a: Tensor, k: float = 2.0) -> Any:
        return (a * k).relu() + torch.tensor([1.0, k, 3.0])

    def two(a: Tensor, own: bool) -> Any:
        b = a + 1
        return b, b.view(-1).clone() if own else b.view(-1)

    same = [fingerprint(captured(fn, [x(5, 3)])) for _ in range(2)]
    assert same[0] == same[1]
    others = [
        captured(lambda a: fn(a, 2.5), [x(5, 3)]),
        captured(fn, [x(4, 3)]),
        captured(fn, [x(3, 5).t()]),
        captured(fn, [x(5, 3).double()]),
        captured(lambda a: two(a, True), [x(5, 3)]),
        captured(lambda a: two(a, False), [x(5, 3)]),
    ]
    assert len({same[0], *map(fingerprint, others)}) == 7


def test_aliases_are_part_of_the_fingerprint() -> None:
    """Two graphs that differ only in what shares memory have different fingerprints."""
    from lamina.frontend.compiling.fingerprint import fingerprint

    def graph(shared: bool) -> fx.GraphModule:
        graph, value = fx.Graph(), x(6)
        a = graph.placeholder("a")
        a.meta["val"] = value
        b = graph.call_function(torch.ops.aten.view.default, (a, [2, 3]))
        b.meta["val"] = value.view(2, 3) if shared else value.clone().view(2, 3)
        graph.output((b,))
        return fx.GraphModule({}, graph)

    assert fingerprint(graph(True)) == fingerprint(graph(True)) != fingerprint(graph(False))


def test_an_interface_comes_back_from_json() -> None:
    views = (ViewResult("result", 0, 3, torch.bfloat16, (2, 3), (3, 1)), Empty(torch.float32, (0, 2), (2, 1), "cpu"))
    interface = Interface(
        3, (0, 2), ("_tensor_constant0",), (*views, ConstantResult(None), ConstantResult(2.5), ConstantResult(True))
    )
    found = codec(Interface).read(json.loads(json.dumps(codec(Interface).write(interface))))
    assert found == interface and found.is_storable()
    assert not Interface(0, (), (), (ConstantResult(1j),)).is_storable()
