"""Tests Options.specialize: static programs for some sizes, in addition to the one for all sizes."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import lamina
from lamina.frontend.compiling import specialized, stages
from lamina.frontend.compiling.sized import SizedProgram
from lamina.frontend.compiling.worker import finish

SHAPES = ({0: Dim("batch", max=64), 1: Dim.AUTO},)


class Model(nn.Module):
    """A model with sizes in views, in values and in a reduction, and with constants."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm = nn.Linear(16, 24), nn.LayerNorm(24)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.up(x)).relu() + x.shape[0] + torch.arange(x.shape[1], device=x.device)[:, None]
        return torch.softmax(y, -1).transpose(0, 1).reshape(x.shape[1], -1) * y.mean()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """Returns the shapes of the arguments of all graphs that were compiled."""
    shapes: list[tuple[Any, ...]] = []
    compile_ = stages._compile

    def watched(graph: Any, *args: Any) -> Any:
        values = [node.meta["val"] for node in graph.gm.graph.find_nodes(op="placeholder")]
        shapes.append(next(tuple(n if type(n) is int else "?" for n in v.shape) for v in values if v.dim() == 3))
        return compile_(graph, *args)

    monkeypatch.setattr(stages, "_compile", watched)
    yield shapes
    finish()


def programs() -> list[SizedProgram]:
    return [found for found in gc.get_objects() if type(found) is SizedProgram]


def check(model: nn.Module, run: Any, batch: int, length: int, training: bool = False) -> None:
    """Compares results, and gradients, with float64."""
    x = torch.randn(batch, length, 16, requires_grad=training)
    exact, wide = model.double(), x.detach().double().requires_grad_(training)
    with torch.set_grad_enabled(training):
        wanted = exact(wide)
        model.float()
        result = run(x)
    torch.testing.assert_close(result.double(), wanted, rtol=1e-5, atol=1e-5)
    if training:
        seed = torch.randn_like(result)
        (gradient,) = torch.autograd.grad(result, x, seed)
        wanted = torch.autograd.grad(model.double()(wide), wide, seed.double())[0]
        model.float()
        torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_the_program_for_all_sizes_serves_until_the_static_one_is_ready(compiled: list[Any], training: bool) -> None:
    torch._dynamo.reset()
    model = Model()
    options = {"cache": False, "specialize": [{"x": {0: 8, 1: 12}}, {"x": {0: 8}}]}
    run = torch.compile(model, backend="lamina", dynamic=True, options=options)
    with stages.BUILDING:  # nothing can be compiled on the other thread
        with torch.set_grad_enabled(training):
            run(torch.randn(5, 7, 16, requires_grad=training))
        forward = [shape for shape in compiled if "?" in shape]
        check(model, run, 8, 12, training)
        check(model, run, 8, 13, training)
        assert len(compiled) == len(forward) == 1 + training
    finish()
    own = compiled[len(forward) :]
    assert len(own) == 2 * (1 + training) and own[0][:2] in ((8, 12), (8, "?"))
    for batch, length in ((8, 12), (8, 13), (9, 12), (8, 12), (5, 7)):
        check(model, run, batch, length, training)
    assert len(compiled) == 3 * (1 + training)
    for program in programs():
        if len(program.specialized) != 2:
            continue
        sizes = dict(zip((s.read[0] for s in program.symbols), program.sources, strict=True))
        names = [sizes["x, dimension 0"], sizes["x, dimension 1"]]
        served = [program.variant_of(program.at(dict(zip(names, of, strict=True)))) for of in ((8, 12), (8, 13), (9, 12))]
        assert len({id(built.code) for built in served}) == 3 and served[2] is program.built


def test_a_program_that_is_ready_waits_for_the_end_of_a_capture(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cannot be loaded while torch captures a CUDA graph."""
    torch._dynamo.reset()
    model = Model().eval()
    run = torch.compile(model, backend="lamina", dynamic=True, options={"cache": False, "specialize": [{"x": {0: 8}}]})
    with torch.no_grad():
        with stages.BUILDING:
            run(torch.randn(5, 7, 16))
            run(torch.randn(8, 12, 16))
        program, key = next((p, k) for p in programs() for k in p.programs() if len(p.programs()) == 2 and {8, 12} <= {*k})
        before = program.programs()[key]
        finish()
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        for captures in (True, False):
            monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda captures=captures: captures)
            check(model, run, 8, 12)
            assert (program.programs()[key] is before) == captures
    assert len(compiled) == 2


def test_ahead_of_calls(compiled: list[Any]) -> None:
    model = Model().eval()
    options = {"cache": False, "specialize": [{"batch": 8}, {"batch": 1}, {"batch": 1, "x": {1: 20}}]}
    with torch.no_grad():
        run = lamina.compile(model, (torch.randn(5, 7, 16),), dynamic_shapes=SHAPES, options=options)
        finish()
        assert sorted(map(str, compiled)) == sorted(map(str, ((1, "?", 16), (1, 20, 16), ("?", "?", 16), (8, "?", 16))))
        for batch, length in ((8, 12), (8, 13), (1, 20), (1, 21), (9, 3), (2, 2)):
            check(model, run, batch, length)
    assert len(compiled) == 4


def test_sizes_that_dynamo_specializes_on(compiled: list[Any]) -> None:
    torch._dynamo.reset()
    model = Model().eval()
    run = torch.compile(model, backend="lamina", dynamic=True, options={"cache": False})
    x = torch.randn(5, 7, 16)
    torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda s: s == 8, lambda s: s % 16 == 0])
    with torch.no_grad():
        run(x)
        for batch, length in ((8, 12), (8, 13), (32, 4), (48, 4), (9, 12)):
            check(model, run, batch, length)
    assert compiled == [("?", "?", 16), (8, "?", 16), ("?", "?", 16)]


def test_bad_sizes() -> None:
    x = torch.randn(5, 10, 16)
    for wanted, said in (
        ({"rows": 8}, "no size is called 'rows' .*batch"),
        ({"x": {2: 16}}, "no size is called 'x, dimension 2'"),
        ({"batch": 65}, "'batch' must be from 0 to 64; 65 given"),
        ({"batch": 8, "x": {0: 9}}, "these are one size"),
        ({"batch": 2.5}, "takes sets of sizes"),
        ({}, "takes sets of sizes"),
    ):
        with pytest.raises(lamina.CompileError, match=said):
            lamina.compile(Model(), (x,), dynamic_shapes=SHAPES, options={"specialize": [wanted]})

    def halves(x: Tensor) -> Tensor:
        return x.exp() * 2 if x.shape[1] % 5 == 0 and x.shape[1] < 20 else x.sin()

    for run in (
        lambda wanted: lamina.compile(halves, (x,), dynamic_shapes=SHAPES, options={"specialize": [wanted]}),
        lambda wanted: torch.compile(halves, backend="lamina", dynamic=True, options={"specialize": [wanted]})(x),
    ):
        torch._dynamo.reset()
        with pytest.raises(lamina.CompileError, match="options.specialize: .* must be from 2 to 19; it is 25"):
            run({"x": {1: 25}})
        with pytest.raises(lamina.CompileError, match="options.specialize: the model is compiled for .*== 0"):
            run({"x": {1: 11}})
    with pytest.warns(UserWarning, match=r"names 'rows'; the sizes that calls of this graph vary are \{'x': \{0: ...\}\}"):
        torch.compile(lambda x: x.exp() * 2, backend="lamina", dynamic=True, options={"specialize": [{"rows": 8}]})(x)


def test_a_program_that_cannot_be_compiled_is_not_missed(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    def fails(*args: Any) -> Any:
        raise RuntimeError("not today")

    monkeypatch.setattr(specialized, "guards_refused", fails)
    model = Model().eval()
    with torch.no_grad():
        run = lamina.compile(model, (torch.randn(5, 7, 16),), dynamic_shapes=SHAPES, options={"specialize": {"batch": 8}})
        finish()
        check(model, run, 8, 12)
    assert any("compiled no program for" in str(w.message) and "= 8: not today" in str(w.message) for w in recwarn)


def test_explain_names_programs_of_their_own() -> None:
    found = lamina.explain(
        Model(),
        (torch.randn(5, 7, 16),),
        dynamic_shapes=SHAPES,
        show=False,
        options={"specialize": [{"batch": 8}, {"x": {0: 9, 1: 30}}]},
    )
    assert found.graphs[0].specialized == ({"batch": 8}, {"batch": 9, "{'x': {1: ...}}": 30})
    assert "a program of its own serves batch = 8" in str(found)
    assert all(k.bytes for sizes in ({"batch": 8}, {"batch": 9, "x": {1: 30}}) for k in found.at(sizes).graphs[0].parts[0].kernels)
