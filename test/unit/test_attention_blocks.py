"""Tests lists of visible blocks for masks that are known only at run time, against float64."""

import pytest
import torch
from attention_programs import attention, compute, exact, graph_level, masked, program_of
from problems import attentions
from test_attention_choice import compiled
from test_attention_kernels import near, random
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.passes.families.attention.cost import AttentionWork, candidates, default_schedule
from lamina.passes.families.attention.forward import Attention
from lamina.passes.families.attention.inputs import _BLOCK
from lamina.passes.families.attention.masks.operands import Masks
from lamina.passes.families.attention.schedules import Forward
from lamina.passes.families.surroundings import calls
from lamina.tune.problems.parts import random_inputs
from lamina.tune.problems.subgraph_extraction import Subgraph

BF16 = torch.bfloat16
SMALL, FLAT = "forward{m=32 n=16 blocks=1}", "forward{m=16 n=32 blocks=1 descriptors=1}"


def seen(batch: int, queries: int, keys: int) -> Tensor:
    """Squares, of which the first of the batch sees all: whole blocks are seen, and hidden; in others single keys are hidden. One
    query sees nothing, all of a block neither."""
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    found = ((q // 25 == k // 30) | ((k < 33) & (q < 40)))[None, None].repeat(batch, 1, 1, 1)
    found[1:] &= torch.rand(queries, keys) > 0.1
    found[:, :, 66] = False
    found[-1, :, 32:64] = False
    return found


@pytest.mark.parametrize(("kind", "schedule"), [("bool", SMALL), ("bias", FLAT)])
def test_masks(kind: str, schedule: str) -> None:
    """A bias also adds to some of the elements that it does not hide."""
    q, k, v, mask = random(2, 2, 70, 16), random(2, 1, 87, 16), random(2, 1, 87, 16), seen(2, 70, 87)
    if kind == "bias":
        mask = torch.where(mask, torch.where(torch.arange(87) < 50, 0.0, 0.5), -torch.inf).to(BF16)
    (found,), names = compute(masked, (q, k, v, mask), schedule)
    near(found, exact(q, k, v, mask))
    assert names == ["attention_blocks", "attention_forward"] and not found[:, :, 66].any()


def test_a_causal_flag_hides_too() -> None:
    q, k, mask = random(1, 1, 70, 16), random(1, 1, 70, 16), seen(2, 70, 70)[1:]
    (found,), _ = compute(lambda q, k, mask: masked(q, k, k, mask, True), (q, k, mask), SMALL)
    near(found, exact(q, k, k, mask, causal=True))


def test_flags_that_a_mask_says_beside_what_is_unknown() -> None:
    """Combines a window of positions with a bool mask; the number of keys is a multiple of the block's."""

    def seen_of(pairs: Tensor) -> Tensor:
        at = torch.arange(64)
        return (at <= at[:, None]) & (at > at[:, None] - 40) & pairs

    def fn(q: Tensor, k: Tensor, pairs: Tensor) -> Tensor:
        mask = seen_of(pairs)
        return masked(masked(q, k, k, mask), k, k, mask)

    q, k, at = random(1, 1, 64, 16), random(1, 1, 64, 16), torch.arange(64)
    pairs = ((at[:, None] // 16 + at // 32) % 3 > 0)[None, None]
    (found,), names = compute(fn, (q, k, pairs), SMALL)
    mask = seen_of(pairs)
    near(found, exact(exact(q, k, k, mask).to(BF16), k, k, mask))
    assert names[-3:] == ["attention_blocks", "attention_forward", "attention_forward"]


def test_logarithms_of_sums() -> None:
    """In a call for training, the logarithms for a query that sees no key are infinite."""

    def fn(q: Tensor, k: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return attention(q, k, k, mask)

    q, k, mask = random(2, 1, 70, 16), random(2, 1, 87, 16), torch.where(seen(2, 70, 87), 0.0, -torch.inf).to(BF16)
    (found, sums), _ = compute(fn, (q, k, mask), SMALL)
    near(found, exact(q, k, k, mask))
    want = (q.double() @ k.double().mT / 4 + mask.double()).logsumexp(-1)
    want[:, :, 66], want[-1, :, 32:64] = torch.inf, torch.inf
    torch.testing.assert_close(sums.double(), want, atol=1e-2, rtol=1e-3)


WORK = AttentionWork(2, 8, 8, 2048, 2048, 64, 64, masked=True, only_hides=True)


def test_lists_are_candidates_of_long_sequences_alone() -> None:
    """They are never chosen unmeasured."""
    for name in ("sm_90a", "sm_80"):
        found = candidates(WORK, Gpu.named(name))
        assert [getattr(c, "blocks", 0) for c in found][-2:] == [0, 1] and default_schedule(WORK, Gpu.named(name)) is None
        for other in (
            AttentionWork(2, 8, 8, 2048, 1000, 64, 64, masked=True, only_hides=True),
            AttentionWork(2, 8, 8, 2048, 2048, 64, 64, masked=True),
        ):
            assert not any(getattr(c, "blocks", 0) for c in candidates(other, Gpu.named(name)))


def bool_mask(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    return masked(q, k, k, torch.where(seen, 0.0, -torch.inf).to(q.dtype).expand(1, 2, -1, -1))


def lowest_mask(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    return masked(q, k, k, torch.where(seen, 0.0, torch.finfo(q.dtype).min).to(q.dtype).expand(1, 2, -1, -1))


def test_what_is_measured_hides_half_of_the_squares() -> None:
    inputs = random(1, 2, 1200, 16), random(1, 2, 1100, 16), torch.ones(1, 1, 1200, 1100, dtype=torch.bool)
    for fn, given in ((bool_mask, inputs), (masked, (*inputs[:2], *inputs[1:]))):
        module = graph_level(fn, given)
        (found,) = (a for op in calls(module) if (a := Attention.read(op, Masks())) is not None)
        assert found.work.only_hides
        (problem,) = attentions(module)
        cut = Subgraph(problem)
        (mask,) = (x for x in random_inputs(cut, torch.device("cpu")) if x.shape[-2:] == (1200, 1100))
        shown = mask[0, 0] if mask.dtype is torch.bool else mask[0, 0] == 0
        assert bool(shown.any(1).all()) and not bool(shown.all())
        assert shown[:_BLOCK, :_BLOCK].all() and mask.unique().numel() == 2
    module = graph_level(lowest_mask, inputs)
    (other,) = (a for op in calls(module) if (a := Attention.read(op, Masks())) is not None)
    assert not other.work.only_hides  # a query that sees nothing has the mean


@pytest.mark.parametrize(("size", "dtype"), [(64, torch.bool), (128, BF16), (256, torch.bool)])
def test_code_keeps_all_in_registers(size: int, dtype: torch.dtype) -> None:
    """With a bool mask, and with one that is added."""
    gpu = Gpu.named("sm_90a")
    config = candidates(AttentionWork(1, 2, 1, 1024, 1024, size, size, masked=True, only_hides=True), gpu)[-1]
    assert isinstance(config, Forward) and config.blocks
    q, k, mask = random(1, 2, 1024, size), random(1, 1, 1024, size), torch.zeros(1, 1, 1024, 1024, dtype=dtype)
    _, artifact = compiled(program_of(graph_level(masked, (q, k, k, mask)), str(config)), gpu)
    assert len(artifact.resources) == 2
    assert all(r.spill_stores == r.spill_loads == 0 for r in artifact.resources), (config, artifact.resources)
