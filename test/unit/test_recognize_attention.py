"""Tests the recognition of attention that models write out, in both dialects of graphs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_forms import FORMS, STAY, Form, Model, bert, inputs, plain
from captured import by_dynamo, exported
from torch import Tensor, fx

from lamina.frontend.attention import recognize as written_out
from lamina.frontend.attention.op import ATTENTION
from lamina.frontend.attention.recognize import recognize
from lamina.frontend.fx.reading import name, value


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_out, "SMALL", {False: 0, True: 0})


def run(gm: fx.GraphModule, given: tuple[Tensor, ...]) -> list[Tensor]:
    named = dict(zip("qkvm", given, strict=True))  # Dynamo has them in the order of their use, as l_q_ and so on
    return list(gm(*(named[n.name.strip("_")[-1]] for n in gm.graph.nodes if n.op == "placeholder")))


BOTH = pytest.mark.parametrize("graph", [exported, by_dynamo])


@BOTH
@pytest.mark.parametrize("form", FORMS)
def test_written_attention_is_one_op(graph: Callable[..., fx.GraphModule], form: Form) -> None:
    given = inputs()
    with torch.no_grad():
        gm = graph(Model(form), given)
        eager = Model(form)(*given)
        assert recognize(gm) == 1
        gm.graph.lint()
        (node,) = (n for n in gm.graph.nodes if n.target is ATTENTION)
        assert "softmax" not in map(name, gm.graph.nodes)
        assert (node.args[3] is not None, node.args[6]) == (FORMS[form] == "mask", FORMS[form] == "causal")
        (found,) = run(gm, given)
        torch.testing.assert_close(found, eager)
        assert found.stride() == eager.stride()
        (output,) = (n for n in gm.graph.nodes if n.op == "output")
        (last,) = output.all_input_nodes
        told = value(last)
        assert told is not None and told.stride() == eager.stride()


@pytest.mark.parametrize(
    ("size", "dtype", "joins"),
    [
        (128, torch.float32, True),
        (136, torch.float32, False),
        (256, torch.bfloat16, True),
        (264, torch.bfloat16, False),
        (64, torch.float64, False),
        (64, torch.float16, True),
    ],
)
def test_a_slow_fused_kernel_is_not_taken(size: int, dtype: torch.dtype, joins: bool) -> None:
    """This is torch's memory-efficient kernel on GPUs, for head sizes that Lamina's kernels do not take either."""
    given = tuple(torch.randn(2, 3, 9, size, dtype=dtype) for _ in range(3))
    with torch.no_grad():
        gm = exported(
            Model(lambda q, k, v, m: torch.softmax(q @ k.transpose(-2, -1) * 0.1, -1) @ v), (*given, torch.zeros(1, dtype=dtype))
        )
        assert recognize(gm, target="nvvm:sm_90a") == joins


@BOTH
@pytest.mark.parametrize(("target", "joins", "dtype"), [("cpu", 1, torch.float32), ("null:nvvm:sm_90a", 2, torch.float16)])
def test_the_target_decides(
    monkeypatch: pytest.MonkeyPatch, graph: Callable[..., fx.GraphModule], target: str, joins: int, dtype: torch.dtype
) -> None:
    """CPU kernels are slow for few scores, and GPU kernels read no mask of a wider dtype; all tensors here are on the CPU."""
    monkeypatch.undo()

    def both(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
        halves = [t.half().repeat(1, 1, 1, 2) for t in (q, k, v)]
        return plain(q, k, v, m), F.scaled_dot_product_attention(*halves, m)

    with torch.no_grad():
        gm = graph(Model(both), inputs(torch.float32))
        assert recognize(gm, target=target) == joins
    masks = [value(n.args[3]) for n in gm.graph.nodes if n.target is ATTENTION]
    assert [mask.dtype for mask in masks if mask is not None] == [dtype]


@BOTH
@pytest.mark.parametrize("form", STAY)
def test_what_is_not_just_attention_stays(graph: Callable[..., fx.GraphModule], form: Callable[..., Any]) -> None:
    with torch.no_grad():
        gm = graph(Model(form), inputs())
        before = [str(n) for n in gm.graph.nodes]
        assert recognize(gm) == 0
        assert [str(n) for n in gm.graph.nodes] == before


@pytest.mark.parametrize(
    ("length", "dtype", "trains", "number"),
    [
        (128, torch.float32, False, 0),
        (256, torch.float32, False, 1),
        (256, torch.float32, True, 0),
        (2, torch.bfloat16, True, 1),
        (128, torch.float64, False, 0),
    ],
)
def test_small_scores_of_wide_types_stay_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, length: int, dtype: torch.dtype, trains: bool, number: int
) -> None:
    monkeypatch.undo()
    gm = exported(Model(plain), inputs(dtype, length, length))
    arguments = [n for n in gm.graph.nodes if n.op == "placeholder"]
    assert recognize(gm, arguments if trains else ()) == number


@BOTH
def test_a_mask_that_is_trained_stays_on_a_cpu(graph: Callable[..., fx.GraphModule]) -> None:
    """The CPU kernel computes no gradient for masks."""
    with torch.no_grad():
        gm = graph(Model(bert), inputs())
    (mask,) = (n for n in gm.graph.nodes if n.op == "placeholder" and n.name.strip("_")[-1] == "m")
    assert recognize(gm, [mask]) == 0 and recognize(gm) == 1


@BOTH
def test_symbolic_sizes_are_recognized(graph: Callable[..., fx.GraphModule]) -> None:
    size = torch.export.Dim("size")
    if graph is by_dynamo:
        given = inputs(torch.bfloat16)
        torch._dynamo.mark_dynamic(given[0], 2)
        gm = graph(Model(plain), given)
    else:
        given = inputs(torch.bfloat16)
        gm = torch.export.export(Model(plain), given, dynamic_shapes=({2: size}, None, None, None)).graph_module
    assert recognize(gm) == 1


@pytest.mark.parametrize("transformed", [torch.func.vmap, lambda fn: torch.func.grad(lambda *given: fn(*given).sum())])
def test_attention_under_a_transform_stays(transformed: Callable[..., Any]) -> None:
    """Values inside belong to a level of the transform, which has ended by then; torch used to raise an error."""
    q, k, v = (torch.randn(2, 2, 3, 5, 4) for _ in range(3))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    torch._dynamo.reset()
    run = torch.compile(transformed(fn), backend="lamina", fullgraph=True, options={"cache": False})
    torch.testing.assert_close(run(q, k, v), transformed(fn)(q, k, v))
