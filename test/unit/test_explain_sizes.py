"""Tests lamina.explain for programs with symbolic sizes."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import lamina
from lamina.core.sizes import parse, readable
from lamina.frontend.compiling import sized
from lamina.report.explanation import Explanation, Peaks

SHAPES = ({0: Dim("batch", max=64), 1: Dim.AUTO},)


@pytest.fixture(autouse=True)
def peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the measurement of the machine's peaks, which takes time."""
    monkeypatch.setattr("lamina.frontend.entry.explain_backend.peaks", lambda again=False: Peaks("somecpu", 2, 10e9, 100e9))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(19, 33)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x).relu().softmax(-1)


def explain(model: object, inputs: object, **kwargs: object) -> Explanation:
    found = lamina.explain(model, inputs, show=False, **kwargs)
    assert json.loads(found.to_json())["graphs"]
    return found


def values(found: Explanation) -> list[tuple[Any, ...]]:
    return [(s.typical, s.minimum, s.maximum, s.read) for s in found.graphs[0].symbols]


def test_symbols_kernels_and_sets_of_sizes() -> None:
    found = explain(Model(), (torch.randn(4, 10, 19),), dynamic_shapes=SHAPES, more=[(torch.randn(7, 3, 19),)])
    (graph,) = found.graphs
    assert values(found) == [(4, 2, 64, ("x, dimension 0",)), (10, 2, None, ("x, dimension 1",))]
    assert graph.bound == 2 and not graph.per_size and not found.recompiles
    (kernel,) = graph.kernels
    batch, length = (s.name for s in graph.symbols)
    assert eval(kernel.bytes_by_size, {batch: 4, length: 10}) == kernel.bytes == 2 * 4 * 4 * 10 * 33
    assert {batch, length} <= set(kernel.programs_by_size.replace("ceil(", "").replace("*", " ").split())
    text = str(found)
    assert "compiled for all sizes, bound to 2 sets" in text and "2 to 64" in text and "2 and more" in text
    assert kernel.bytes_by_size in text


@pytest.mark.parametrize("training", [False, True])
def test_times_are_measured_at_the_typical_sizes(training: bool) -> None:
    found = explain(Model(), (torch.randn(4, 10, 19),), dynamic_shapes=SHAPES, training=training, measure=True)
    assert len(found.graphs) == 1 + training
    assert all(k.seconds is not None for k in found.kernels)
    assert all(g.symbols for g in found.graphs)
    assert "of roof" in str(found)


def test_what_was_compiled_for_all_sizes_is_explained_so() -> None:
    model, x = Model().eval(), torch.randn(4, 10, 19)
    with torch.no_grad():
        compiled = lamina.compile(model, (x,), dynamic_shapes=SHAPES)
    for dynamic in (compiled, torch.compile(model, dynamic=True), torch.compile(lambda t: model(t), dynamic=True)):
        assert [row[0] for row in values(explain(dynamic, (x,)))] == [4, 10]
    assert not values(explain(model, (x,)))
    assert values(explain(model, (x[:1],), dynamic_shapes=SHAPES)) == [(10, 2, None, ("x, dimension 1",))]
    with pytest.raises(ValueError, match="'x' must be from 0 to 64"):
        explain(model, (torch.randn(65, 10, 19),), dynamic_shapes=SHAPES)


def test_a_graph_compiled_per_size_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise lamina.CompileError("no symbols today")

    monkeypatch.setattr(sized, "sources_of", refuse)
    found = explain(Model(), (torch.randn(4, 10, 19),), dynamic_shapes=SHAPES)
    (graph,) = found.graphs
    assert graph.per_size == "no symbols today" and not graph.symbols
    assert graph.kernels and not graph.kernels[0].bytes_by_size
    assert "compiled once per size, as no symbols today: 1 set of sizes (the last 8 are kept)" in str(found)


def test_sizes_for_people() -> None:
    for text, wanted in (
        ("4*s0~8*s1~128 + 1", "4*s0*s1 + 1"),
        ("s0~8 - 1", "s0 - 1"),
        ("-((-3*s0~8)//(512))", "ceil(3*s0 / 512)"),
        ("-2*((-s0~8)//(5))*s1~3", "2*ceil(s0 / 5)*s1"),
        ("(s0~8 + 1)//(2*s1~3)", "floor((s0 + 1) / (2*s1))"),
        ("s0~8%16 + min(s0~8, s1~3)", "-16*floor(s0 / 16) + s0 + min(s0, s1)"),
        ("s0~8%s1~3", "-floor(s0 / s1)*s1 + s0"),
        ("s0~8%(s1~3*s2~4)", "(s0 % (s1*s2))"),
        ("4*((s0~8)/(4)) + 2", "s0 + 2"),
        ("-((-s0~8)//(-((-max(8192//s1~3, 1))//16)))", "ceil(s0 / ceil(max(1, floor(8192 / s1)) / 16))"),
    ):
        assert sorted(readable(parse(text)).split(" + ")) == sorted(wanted.split(" + "))


def test_kernels_for_ranges_of_sizes_are_shown() -> None:
    """The product has kernels for few rows, and the norm has one that starts early; figures are for the kernels that the example
    uses."""
    model = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768), nn.LayerNorm(768)).to(torch.bfloat16)
    x = torch.randn(4, 1000, 768, dtype=torch.bfloat16)
    found = explain(model, (x,), dynamic_shapes=SHAPES, target="null:nvvm:sm_90a")
    (graph,) = found.graphs
    product, norm = graph.kernels
    assert len(product.ranges) > 1 and product.ranges[0].endswith("<= 64") and product.ranges[-1] == f"{product.kernel} otherwise"
    assert len(norm.ranges) == 2 and norm.ranges[0].startswith(f"{norm.kernel.removesuffix('_early')}_early where")
    assert f"step {product.step} has kernels for ranges of sizes" in str(found)


def test_of_many_ranges_those_in_use_are_shown() -> None:
    model = nn.Softmax(-1)
    found = explain(model, (torch.randn(48, 40),), dynamic_shapes=({0: Dim("m"), 1: Dim("n")},), target="null:nvvm:sm_90a")
    (softmax,) = found.graphs[0].kernels
    assert len(softmax.ranges) > 40
    shown = " ".join(str(found).split())
    assert f"step 0 has kernels for {len(softmax.ranges)} ranges of sizes, such as {softmax.kernel} where" in shown
    assert shown.count("softmax_to_") <= 6 and "softmax otherwise" in shown


class Branches(nn.Module):
    """A model that asks for a range, a factor and an equality of sizes."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[1] > 20 or x.shape[1] % 5:
            x = x * 2
        return (x + y).softmax(-1)


def branches(**kwargs: object) -> Explanation:
    return explain(Branches(), (torch.randn(8, 10, 6), torch.randn(8, 10, 6)), **kwargs)


DECLARED = ({0: Dim("batch", max=64), 1: Dim.AUTO}, {0: Dim("batch", max=64), 1: Dim.AUTO})


def test_conditions_name_the_lines_that_asked_for_them() -> None:
    found = branches(dynamic_shapes=DECLARED)
    (graph,) = found.graphs
    batch, length = graph.symbols
    assert batch.called == "batch" and batch.read == ("x, dimension 0", "y, dimension 0") and batch.maximum == 64
    assert (length.called, length.maximum, length.factor) == ("", 20, 5) and length.read == ("x, dimension 1", "y, dimension 1")
    conditions = {c.text: c for c in graph.conditions}
    asked = conditions["(x, dimension 1) <= 20"]
    assert asked.where.startswith("test_explain_sizes.py:") and asked.code.startswith("if x.shape[1] > 20") and not asked.by
    equal = conditions["(x, dimension 1) == (y, dimension 1)"]
    assert equal.code.startswith("return (x + y)") and equal.by.startswith("torch: ")
    text = str(found)
    assert "2 to 20, multiples of 5" in text and "(batch)" in text and "the last 128 are kept" in text
    assert "(x, dimension 1) == (y, dimension 1)" in text and "if x.shape[1] > 20" in text


def test_what_calls_with_other_sizes_would_do() -> None:
    found = branches(dynamic_shapes=DECLARED)
    for sizes, outcome, why in (
        ({}, "known", ""),
        ({"batch": 64}, "new", ""),
        ({"x": {0: 3, 1: 15}}, "new", ""),
        ({"batch": 65}, "refused", "dimension 0 of argument 'x' must be from 0 to 64; it is 65"),
        ({"y": {1: 25}}, "refused", "x, dimension 1 must be from 2 to 20; it is 25"),
        ({"x": {1: 11}}, "refused", "== 0"),
        ({"batch": 1}, "compiled", "0 and 1 are compiled apart"),
    ):
        (graph,) = found.at(sizes).graphs
        assert (graph.outcome, why in graph.why) == (outcome, True), (sizes, graph)
        assert bool(graph.parts) == (outcome in ("known", "new"))
    twice = found.at({"batch": 16})
    assert found.graphs[0].kernels[0].bytes * 2 == twice.graphs[0].parts[0].kernels[0].bytes
    assert twice.graphs[0].sizes == {"batch": 16, "x, dimension 1": 10} and not twice.compiles
    assert "graph 0 at batch = 16; x, dimension 1 = 10: runs the compiled program; the first call" in str(twice)
    with pytest.raises(lamina.CompileError, match=r"no size is called 'rows' \(those that .* batch, \{'x': \{1: ...\}\}\)"):
        found.at({"rows": 3})
    with pytest.raises(ValueError, match="these are one size: x, dimension 0 = 4, batch = 3"):
        found.at({"batch": 3, "x": {0: 4}})


def test_what_calls_with_other_inputs_would_do() -> None:
    found = explain(torch.compile(Branches(), dynamic=True), (torch.randn(8, 10, 6), torch.randn(8, 10, 6)))
    (graph,) = found.at((torch.randn(7, 15, 6), torch.randn(7, 15, 6))).graphs
    assert graph.outcome == "new" and [k.programs for k in graph.parts[0].kernels]
    for x, y, why in (
        (torch.randn(7, 15, 6), torch.randn(7, 10, 6), "must be equal; they are 15 and 10"),
        (torch.randn(7, 15, 6), torch.randn(7, 15, 6).double(), "the dtype of 'y' is torch.float64"),
        (torch.randn(7, 15), torch.randn(7, 15), "the ndim of 'x' is 2, and 3 when compiled"),
    ):
        found_at = found.at({"x": x, "y": y})
        assert found_at.compiles and why in found_at.graphs[0].why, found_at


def test_the_memory_of_both_passes_at_other_sizes() -> None:
    model = nn.Sequential(nn.Linear(19, 33), nn.LayerNorm(33), nn.GELU(), nn.Linear(33, 7))
    found = explain(model, (torch.randn(4, 19),), dynamic_shapes=({0: Dim("batch")},), training=True)
    (graph,) = found.at({"batch": 400}).graphs
    assert [part.name for part in graph.parts] == ["graph 0", "graph 0 backward"]
    typical = sum(part.memory.arena_bytes for part in found.graphs)
    assert 50 * typical < found.at({"batch": 400}).arena_bytes <= 100 * typical + 4096


def test_graphs_after_a_break_and_graphs_per_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: Tensor) -> Tensor:
        y = x.exp() * 2
        torch._dynamo.graph_break()
        return y.softmax(-1)

    found = explain(torch.compile(broken, dynamic=True), (torch.randn(4, 9),))
    first, second = found.at((torch.randn(5, 9),)).graphs
    assert first.outcome == "new" and second.outcome == "unknown" and "by name" in second.why

    def refuse(*args: Any) -> Any:
        raise lamina.CompileError("no symbols today")

    monkeypatch.setattr(sized, "sources_of", refuse)
    found = explain(Model(), (torch.randn(4, 10, 19),), dynamic_shapes=SHAPES)
    assert found.at({}).graphs[0].outcome == "known"
    (graph,) = found.at({"batch": 5}).graphs
    assert graph.outcome == "compiled" and graph.why == "once per size, as no symbols today (the last 8 are kept, 1 now)"


def test_the_recording_of_cuda_graphs_is_bounded() -> None:
    found = explain(Model(), (torch.randn(4, 10, 19),), dynamic_shapes=SHAPES, target="null:nvvm:sm_90a")
    assert found.at({"batch": 5}).graphs[0].cuda_graph == "recorded for each set of sizes; the process keeps the last 64"
