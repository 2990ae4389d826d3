"""Tests attention with dropout, and its gradients, by Lamina kernels: in Triton's interpreter against float64 with the same
random numbers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from attention_programs import compute, graph_level, program_of
from attention_training import exact_gradients_of
from problems import attentions
from test_attention_choice import compiled
from test_attention_kernels import near, random
from torch import Tensor

from lamina.core.dropout import keep_scale
from lamina.core.gpu import Gpu
from lamina.core.program import Launch
from lamina.frontend.attention.op import ATTENTION, kept_weights
from lamina.passes.families.attention.backward import Gradients
from lamina.passes.families.attention.cost import AttentionWork, candidates, default_schedule
from lamina.passes.families.attention.masks.operands import Masks
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS
from lamina.passes.families.surroundings import calls
from lamina.report.choices import untuned_note
from lamina.targets.kernel_calls.user import take
from lamina.tune.problems.parts import random_inputs
from lamina.tune.problems.subgraph_extraction import Subgraph

BF16 = torch.bfloat16
BACKWARD = torch.ops.lamina.attention_backward.default
ONE, OTHER = (
    "forward{m=32 n=16}; backward{m=32 n=16 keys=32 queries=16}",
    "forward{m=16 n=32}; backward{m=16 n=32 keys=16 queries=32}",
)
LISTS = "forward{m=32 n=16 blocks=1}; backward{m=32 n=16 keys=16 queries=32 blocks=1}"
SEED = torch.tensor(-(2**62) - 987654321)


def both(dropout: float, causal: bool = False, scale: float = 0.3) -> Callable[..., Sequence[Tensor]]:
    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, seed: Tensor, *mask: Tensor) -> Sequence[Tensor]:
        given = mask[0] if mask else None
        out, sums = ATTENTION(q, k, v, given, seed, dropout, causal, scale, TORCH_KERNELS)
        return out, *BACKWARD(grad, q, k, v, given, out, sums, seed, dropout, causal, scale, TORCH_KERNELS, False)

    return fn


# sequences, heads, heads of keys, queries, keys, size, size of values
CASES = {
    "plain": ((2, 2, 1, 20, 33, 40, 24), 0.1, ONE),
    "causal": ((1, 2, 1, 40, 40, 17, 24), 0.75, OTHER),
    "bool": ((1, 1, 1, 33, 40, 16, 16), 0.3, ONE),
    "bool, lists": ((1, 1, 1, 70, 40, 16, 16), 0.3, LISTS),
    "bias, lists": ((1, 1, 1, 40, 70, 16, 16), 0.3, LISTS),
    "all": ((1, 1, 1, 5, 20, 16, 16), 1.0, ONE),
    "none": ((1, 1, 1, 5, 20, 16, 16), 1e-12, ONE),
}


@pytest.mark.parametrize("name", CASES)
def test_both_passes(name: str) -> None:
    """At lengths that are no multiples of a block. Which weights are dropped does not depend on the blocks."""
    (batch, heads, kv_heads, queries, keys, size, values), dropout, schedule = CASES[name]
    grad, q = random(batch, heads, queries, values), random(batch, heads, queries, size)
    k, v = random(batch, kv_heads, keys, size), random(batch, kv_heads, keys, values)
    seen = (torch.rand(batch, 1, queries, keys) > 0.4) & (torch.arange(queries)[:, None] // 25 == torch.arange(keys) // 30)
    biased = torch.where(seen, torch.where(torch.arange(keys) < 16, 0.0, 0.5), -torch.inf).to(BF16)
    mask = [seen] if "bool" in name else [biased] if "bias" in name else []
    (out, *found), names = compute(both(dropout, name == "causal"), (grad, q, k, v, SEED, *mask), schedule)
    listed = ["attention_blocks"] * (3 if "lists" in name else 0)
    assert sorted(names) == sorted([*listed, "attention_forward", "attention_backward_queries", "attention_backward_keys"])
    factors = kept_weights(SEED, (batch, heads, queries, keys), dropout) * (
        2**16 / kept if (kept := round((1 - dropout) * 2**16)) else 0.0
    )
    want = exact_gradients_of(grad, q, k, v, mask[0] if mask else None, name == "causal", 0.3, factors)
    for one, exact in zip((out, *found), want, strict=True):
        assert not one.any() if dropout == 1 else near(one, exact, 4e-3) is None


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.99, 0.999, 0.99999, 1.0])
def test_the_mean_stays(dropout: float) -> None:
    """The probability is a multiple of 2^-16, and the weights that are kept are scaled by exactly its inverse."""
    share = round((1 - dropout) * 2**16) / 2**16
    assert share * keep_scale(dropout) == pytest.approx(1.0 if share else 0.0, abs=1e-12)


def test_what_is_kept(dropout: float = 0.3) -> None:
    """As many weights are kept as chance predicts. Neighbors, weights 8 apart, which share a block of words, and heads are
    independent."""
    kept = kept_weights(SEED, (2, 2, 70, 100), dropout).double()
    sigma = math.sqrt(dropout * (1 - dropout))
    assert abs(kept.mean() - (1 - dropout)) < 5 * sigma / math.sqrt(kept.numel())
    centered = (kept - (1 - dropout)) / sigma
    pairs = [(centered[..., n:] * centered[..., :-n]) for n in (1, 8, 16)] + [
        (centered[:, :, n:] * centered[:, :, :-n]) for n in (1, 8)
    ]
    pairs += [centered[:, :1] * centered[:, 1:], centered[:1] * centered[1:], centered[..., 8:, 8:] * centered[..., :-8, :-8]]
    assert all(abs(pair.mean()) < 5 / math.sqrt(pair.numel()) for pair in pairs)
    assert not torch.equal(kept_weights(SEED + 1, kept.shape, dropout).double(), kept)


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=BF16)


def test_what_tuning_measures() -> None:
    """Candidates are compared with torch's own ops, which drop the same weights. Gradients are measured on the results of
    attention with the same seed, with a mask that hides squares."""
    seen = torch.ones(1, 1, 40, 40, dtype=torch.bool)
    module = graph_level(
        both(0.5), (zeros(1, 1, 40, 16), zeros(1, 1, 40, 16), zeros(1, 1, 40, 16), zeros(1, 1, 40, 16), SEED, seen)
    )
    (found,) = (g for op in calls(module) if (g := Gradients.read(op, Masks())) is not None)
    assert found.what == "attention backward 1x1x40x16 on 1x1x40x16, mask 1x1x40x40, dropout 0.5"
    cut = Subgraph(attentions(module)[-1])
    grad, q, k, v, mask, out, sums, seed = random_inputs(cut, torch.device("cpu"))
    assert mask.all()  # all is one square, which each query sees
    again, logs = ATTENTION(q, k, v, mask, seed, 0.5, False, 0.3, TORCH_KERNELS)
    assert torch.equal(again, out) and torch.equal(logs, sums) and bool(out.any()) and bool(grad.any())
    gpu = Gpu.named("sm_80")
    assert default_schedule(found.work, gpu) == candidates(found.work, gpu)[0]


def test_explain_names_what_a_library_drops() -> None:
    def fn(q: Tensor, seed: Tensor) -> Sequence[Tensor]:
        dropped = torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.5)[0]
        return dropped, ATTENTION(q, q, q, None, seed, 0.5, False, 0.3, TORCH_KERNELS)[0]

    program, _ = take(program_of(graph_level(fn, (zeros(1, 1, 40, 16), SEED))), (), Gpu.named("sm_90a"))
    said = untuned_note(program, "cached")
    assert said.startswith("2 attention ops, 1 by the library (1 with dropout, whose random numbers only that knows")


def test_lists_are_candidates_of_gradients_of_long_sequences() -> None:
    """If the mask only hides; they are never chosen unmeasured."""
    long, gpu = zeros(1, 2, 1024, 16), Gpu.named("sm_90a")
    for mask, is_one in ((torch.ones(1, 1, 1024, 1024, dtype=torch.bool), True), (zeros(1, 1, 1024, 1024), False)):
        module = graph_level(both(0.5), (long, long, long, long, SEED, mask))
        (found,) = (g for op in calls(module) if (g := Gradients.read(op, Masks())) is not None)
        ours = candidates(found.work, gpu)
        assert [c.blocks for c in ours] == [0] * (len(ours) - is_one) + [1] * is_one
    assert not any(c.blocks for c in candidates(AttentionWork(1, 2, 2, 500, 500, 16, 16, only_hides=True, backward=True), gpu))


@pytest.mark.parametrize(("arch", "size", "masked"), [("sm_90a", 128, False), ("sm_80", 128, True), ("sm_120a", 128, True)])
def test_code_keeps_all_in_registers(arch: str, size: int, masked: bool) -> None:
    """The schedules that are chosen unmeasured spill at most two registers (with Triton 3.9)."""
    gpu, mask = Gpu.named(arch), [torch.ones(1, 1, 512, 512, dtype=torch.bool)] if masked else []
    work = AttentionWork(1, 2, 1, 512, 512, size, size, not masked, masked, True, has_dropout=True)
    schedules = (default_schedule(work, gpu), default_schedule(replace(work, backward=True), gpu))
    assert schedules[0] == candidates(work, gpu)[0]
    q, k = zeros(1, 2, 512, size), zeros(1, 1, 512, size)
    module = graph_level(both(0.1, not masked), (q, q, k, k, SEED, *mask))
    program, artifact = compiled(program_of(module, "; ".join(map(str, schedules))), gpu)
    assert sum(isinstance(s, Launch) for s in program.steps) == 3
    assert all(max(r.spill_stores, r.spill_loads) <= 8 for r in artifact.resources), artifact.resources
    assert all(needs.shared <= gpu.shared_bytes for needs in artifact.needs.values())
