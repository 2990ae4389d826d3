"""lamina.explain of programs with symbolic sizes."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import lamina
from lamina.core.sizes import parse, shown
from lamina.frontend.compiling import sized
from lamina.report.explanation import Explanation, Peaks

SHAPES = ({0: Dim("batch", max=64), 1: Dim.AUTO},)


@pytest.fixture(autouse=True)
def peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time for measurements of the machine."""
    monkeypatch.setattr("lamina.frontend.entry.explain.peaks", lambda again=False: Peaks("somecpu", 2, 10e9, 100e9))


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
    return [(s.typical, s.least, s.most, s.read) for s in found.graphs[0].symbols]


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
    assert "compiled once per size, as no symbols today" in str(found)


def test_sizes_for_people() -> None:
    for text, wanted in (
        ("4*s0~8*s1~128 + 1", "4*s0*s1 + 1"),
        ("s0~8 - 1", "s0 - 1"),
        ("-((-3*s0~8)//(512))", "ceil(3*s0 / 512)"),
        ("-2*((-s0~8)//(5))*s1~3", "2*ceil(s0 / 5)*s1"),
        ("(s0~8 + 1)//(2*s1~3)", "floor((s0 + 1) / (2*s1))"),
        ("s0~8%16 + min(s0~8, s1~3)", "(s0 % 16) + min(s0, s1)"),
        ("-((-s0~8)//(-((-max(8192//s1~3, 1))//16)))", "ceil(s0 / ceil(max(floor(8192 / s1), 1) / 16))"),
    ):
        assert sorted(shown(parse(text)).split(" + ")) == sorted(wanted.split(" + "))


def test_kernels_for_ranges_of_sizes_are_shown() -> None:
    """The product has kernels for few rows, and the norm one that starts early; figures are of those that the example takes."""
    model = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768), nn.LayerNorm(768)).to(torch.bfloat16)
    x = torch.randn(4, 1000, 768, dtype=torch.bfloat16)
    found = explain(model, (x,), dynamic_shapes=SHAPES, target="null:nvvm:sm_90a")
    (graph,) = found.graphs
    product, norm = graph.kernels
    assert len(product.ranges) > 1 and product.ranges[0].endswith("<= 64") and f"{product.kernel} where" in product.ranges[-1]
    assert len(norm.ranges) == 2 and norm.ranges[0].startswith(f"{norm.kernel.removesuffix('_early')}_early where")
    assert f"step {product.step} has kernels for ranges of sizes" in str(found)
