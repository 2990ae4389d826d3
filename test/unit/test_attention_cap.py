"""Tests attention with a soft cap, cap * tanh(score / cap), and other attention without a library kernel, by Lamina's kernels in
Triton's interpreter, in both passes, against float64."""

from collections.abc import Callable

import pytest
import torch
from attention_forms import Model
from attention_programs import compute, graph_level, program_of
from captured import by_dynamo, exported
from pairs import pairwise
from torch import Tensor, fx

from lamina.core.program import Call
from lamina.frontend.attention.op import ATTENTION
from lamina.frontend.attention.recognize import recognize

BF16 = torch.bfloat16
CAP, SCALE = 3.0, 0.7  # many scores are near the cap
FORWARD, BACKWARD = "forward{m=32 n=16}", "backward{m=32 n=16 keys=32 queries=16}"


def random(*shape: int) -> Tensor:
    return torch.randn(*shape).to(BF16)


def exact(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    """The result and the sums in float64; rows that see nothing are zero, and their sums infinite."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = CAP * torch.tanh(q @ k.mT * SCALE / CAP)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    lost = (scores == -torch.inf).all(-1, keepdim=True)
    kept = scores.masked_fill(lost, 0.0)
    return kept.softmax(-1).masked_fill(lost, 0.0) @ v, kept.logsumexp(-1).masked_fill(lost[..., 0], torch.inf)


def near(found: Tensor, want: Tensor, bound: float = 4e-3) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm())
    assert far <= bound * max(float(want.norm()), 1.0), far


def masks(queries: int, keys: int) -> dict[str, Tensor | None]:
    seen = torch.rand(1, 1, queries, keys) > 0.4
    seen[:, :, 2] = False
    return {"none": None, "bool": seen, "bias": torch.randn(1, 2, queries, keys)}


@pytest.mark.parametrize(
    ("sizes", "kind", "causal"), pairwise([(1, 3), (47, 47), (33, 70)], ["none", "bool", "bias"], [False, True])
)
def test_both_passes(sizes: tuple[int, int], kind: str, causal: bool) -> None:
    queries, keys = sizes
    q, k, v, grad = random(2, 2, queries, 24), random(2, 1, keys, 24), random(2, 1, keys, 16), random(2, 2, queries, 16)
    mask = masks(queries, keys)[kind] if queries > 2 else None
    back = torch.ops.lamina.attention_backward.default

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        mask = given[0] if given else None
        out, sums = ATTENTION(q, k, v, mask, None, 0.0, causal, SCALE, "", CAP)
        return out, sums, *back(grad, q, k, v, mask, out, sums, None, 0.0, causal, SCALE, "", False, CAP)

    given = [] if mask is None else [mask]
    (out, sums, *grads), names = compute(fn, (grad, q, k, v, *given), f"{FORWARD}; {BACKWARD}")
    assert names[-3:] == ["attention_forward", "attention_backward_queries", "attention_backward_keys"]
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    want, logs = exact(*wide, mask, causal)
    near(out, want.detach())
    assert torch.equal(sums.isinf(), logs.isinf())
    near(sums[~sums.isinf()], logs[~logs.isinf()].detach(), 1e-4)
    for one, other in zip(grads, torch.autograd.grad(want, wide, grad.double()), strict=True):
        near(one, other, 6e-3)


def test_few_queries() -> None:
    q, k = random(1, 4, 1, 32), random(1, 2, 130, 32)
    (out,), names = compute(
        lambda q, k: ATTENTION(q, k, k, None, None, 0.0, False, SCALE, "", CAP)[0], (q, k), "split{n=16 parts=2}"
    )
    near(out, exact(q.double(), k.double(), k.double(), None, False)[0])
    assert names == ["attention_split", "attention_join"]


@pytest.mark.parametrize(("mask", "lists"), [(False, 0), (True, 3)])
def test_the_model_has_kernels_where_no_library_may(mask: bool, lists: int) -> None:
    """In both passes. For a mask that only hides, the kernels get lists of its blocks."""
    q, seen = random(1, 2, 1024, 64), torch.rand(1024, 1024) > 0.5
    cap = 0.0 if mask else CAP
    back = torch.ops.lamina.attention_backward.default

    def fn(q: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        hidden = seen[None, None] if mask else None
        out, sums = ATTENTION(q, q, q, hidden, None, 0.0, False, SCALE, "", *([cap] if cap else []))
        return tuple(back(q, q, q, q, hidden, out, sums, None, 0.0, False, SCALE, "", False, *([cap] if cap else [])))

    steps = program_of(graph_level(fn, (q, seen))).steps
    called = [step.callee for step in steps if isinstance(step, Call)]
    assert sum("blocks" in callee for callee in called) == lists
    assert [c for c in called if "blocks" not in c] == [
        f"lamina.attention_{name}" for name in ("forward", "backward_queries", "backward_keys")
    ]  # fmt: skip


@pytest.mark.parametrize("graph", [exported, by_dynamo])
@pytest.mark.parametrize("masked", ["nothing", "causal", "bias"])
def test_written_out(graph: Callable[..., fx.GraphModule], masked: str) -> None:
    """As in Gemma 2: the mask is added to the capped scores in their dtype."""
    n = 47

    def capped(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
        scores = q @ k.repeat_interleave(2, 1).mT * SCALE / CAP
        scores = torch.tanh(scores) * CAP
        if masked == "causal":
            scores = scores + torch.full((n, n), torch.finfo(BF16).min, dtype=BF16).triu(1)
        elif masked == "bias":
            scores = scores + m
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(BF16)
        return (weights @ v.repeat_interleave(2, 1)).transpose(1, 2).contiguous()

    given = random(2, 4, n, 64), random(2, 2, n, 64), random(2, 2, n, 64), random(1, 1, n, n)
    with torch.no_grad():
        gm = graph(Model(capped), given)
        assert recognize(gm, target="nvvm:sm_90a") == 1
        (node,) = (x for x in gm.graph.nodes if x.target is ATTENTION)
        assert (node.args[3] is not None, node.args[6], node.args[9]) == (masked == "bias", masked == "causal", CAP)
        assert abs(node.args[7] - SCALE) < 1e-6
        named = dict(zip("qkvm", given, strict=True))
        (found,) = gm(*(named[x.name.strip("_")[-1]] for x in gm.graph.nodes if x.op == "placeholder"))
        want, _ = exact(*(t.double() for t in given[:3]), given[3] if masked == "bias" else None, masked == "causal")
        near(found, want.transpose(1, 2))
