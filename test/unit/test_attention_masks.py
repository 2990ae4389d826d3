"""Tests masks whose meaning is recognized from the ops that compute them, and attention by Lamina kernels with this knowledge,
against float64."""

from typing import Any

import pytest
import torch
from attention_masks import (
    MEANINGS,
    Builder,
    Scores,
    added,
    beyond,
    cached,
    causal_slopes,
    causal_window,
    keys,
    lengths,
    lowest,
    of_values,
    slopes,
    window,
)  # fmt: skip
from attention_programs import compute, exact, graph_level, masked, plain, program_of
from test_attention_kernels import random
from torch import Tensor

from lamina.core.program import Call
from lamina.passes.families.attention.forward import Attention
from lamina.passes.families.attention.masks.operands import Masks
from lamina.passes.families.surroundings import calls

BF16 = torch.bfloat16
FORWARD, SPLIT = "forward{m=32 n=16}", "split{n=16 parts=2}"


def near(found: Tensor, want: Tensor) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm() / want.norm())
    assert far <= 4e-3, far  # the result is rounded, and so are weights


def there(batch: int, count: int) -> Tensor:
    """Which keys each sequence has: all, the first, the last, some in between, none."""
    at = torch.arange(count)
    kinds = (at >= 0, at < count * 2 // 3, at >= count // 3, (at > 1) & (at % 3 > 0), at < 0)
    return torch.stack(kinds[:batch]).long()


def said(build: Builder, of: Scores) -> str:
    def fn(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        return masked(q, k, k, build(seen, of, q.dtype))

    module = graph_level(fn, (random(*of[:3], 16), random(*of[:2], of[3], 16), there(of[0], of[3])))
    masks = Masks()
    (found,) = (a for op in calls(module) if (a := Attention.read(op, masks)) is not None)
    return found.meaning.what


@pytest.mark.parametrize("build", MEANINGS, ids=lambda f: f.__name__)
def test_what_masks_mean(build: Builder) -> None:
    assert said(build, (2, 4, 40, 40)) == MEANINGS[build]


def test_what_masks_of_long_sequences_mean() -> None:
    """These masks are too large to be folded to constants."""
    for build in (causal_window, causal_slopes, lengths):
        assert said(build, (2, 4, 1000, 1000)) == MEANINGS[build]
    assert said(cached, (2, 4, 3, 1000)) == ": causal from +997"
    assert said(cached, (2, 4, 1, 1000)) == ""  # it hides nothing


def unordered(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Compared with a length, but not by positions in order."""
    return added((torch.arange(of[3]) * 5 % of[3] < there.sum(1)[:, None])[:, None, None], of, dtype)


def prefix(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """What comes later is hidden, but for the first keys: no flag says so."""
    at = torch.arange(of[3])
    return added((at <= at[: of[2], None]) | (at < 5), of, dtype)


def some_rows_see_nothing(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """They have the mean, as a finite number hides."""
    at = torch.arange(of[3])
    return added(at < at[: of[2], None], of, dtype, torch.finfo(dtype).min)


@pytest.mark.parametrize("build", [unordered, prefix, some_rows_see_nothing], ids=lambda f: f.__name__)
def test_what_is_not_said_is_read(build: Builder) -> None:
    of = (2, 2, 24, 24)
    assert said(build, of) == (": keys" if build is unordered else "")
    q, seen = random(*of[:3], 16), there(2, 24)
    (found,), _ = compute(lambda q, seen: masked(q, q, q, build(seen, of, q.dtype)), (q, seen), FORWARD)
    near(found, exact(q, q, q, build(seen, of, BF16)))


def test_masks_of_transformers() -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    inputs: dict[str, dict[str, Any]] = {
        ": causal, keys": {},
        ": causal, window 9, keys": {"mask_function": masking.sliding_window_causal_mask_function(9)},
        ": keys": {"mask_function": masking.bidirectional_mask_function},
        ": causal from +4, window 9, keys": {"mask_function": masking.sliding_window_bidirectional_mask_function(4)},
    }
    for want, chosen in inputs.items():

        def build(seen: Tensor, of: Scores, dtype: torch.dtype, chosen: dict[str, Any] = chosen) -> Tensor:
            batch, _, queries, count = of
            mask = masking.sdpa_mask(batch, queries, count, attention_mask=seen.bool(), allow_is_causal_skip=False, **chosen)
            return added(mask, of, dtype)

        assert said(build, (2, 4, 50, 50)) == want


OF_KEYS = (causal_window, keys, lengths, beyond, of_values)  # what depends on which keys are there


def computed(build: Builder, queries: int, count: int, schedule: str, dtype: torch.dtype = BF16) -> list[str]:
    of = (5 if build in OF_KEYS else 2, 2, queries, count)
    q, k, v, seen = random(*of[:3], 16), random(of[0], 1, count, 16), random(of[0], 1, count, 16), there(of[0], count)
    (found,), names = compute(lambda q, k, v, seen: masked(q, k, v, build(seen, of, q.dtype)), (q, k, v, seen), schedule)
    wide = torch.float64 if build in (slopes, causal_slopes) else dtype  # Lamina's does not round what it adds
    near(found, exact(q, k, v, build(seen, of, wide)))
    return names


@pytest.mark.parametrize("build", MEANINGS, ids=lambda f: f.__name__)
def test_forward(build: Builder) -> None:
    assert computed(build, 33, 47, FORWARD)[-1] == "attention_forward"


@pytest.mark.parametrize("count", [1, 3, 127, 1000])
def test_sizes(count: int) -> None:
    computed(causal_window, 9 if count == 1000 else count, count, "forward{m=64 n=64}")


@pytest.mark.parametrize("count", [1, 300])
@pytest.mark.parametrize("build", [keys, lengths, slopes], ids=lambda f: f.__name__)
def test_keys_in_parts(build: Builder, count: int) -> None:
    names = computed(build, 1, count, "split{n=32 parts=4}" if count == 300 else SPLIT)
    assert names[-2:] == ["attention_split", "attention_join"]


def test_bounds_are_computed_once_for_all_layers() -> None:
    of = (2, 2, 40, 40)

    def fn(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        mask = causal_window(seen, of, q.dtype)
        return masked(masked(q, k, k, mask), k, k, mask)

    q, k, seen = random(2, 2, 40, 16), random(2, 2, 40, 16), there(2, 40)
    (found,), names = compute(fn, (q, k, seen), FORWARD)
    mask = causal_window(seen, of, BF16)
    near(found, exact(exact(q, k, k, mask).to(BF16), k, k, mask))
    assert names[1:] == ["attention_bounds", "attention_forward", "attention_forward"]


def test_the_flag_of_the_call_counts_too() -> None:
    of = (2, 2, 40, 40)
    q, k, seen = random(2, 2, 40, 16), random(2, 2, 40, 16), there(2, 40)
    for mask in (keys, window):
        (found,), _ = compute(lambda q, k, seen, mask=mask: masked(q, k, k, mask(seen, of, q.dtype), True), (q, k, seen), FORWARD)
        near(found, exact(q, k, k, mask(seen, of, BF16), causal=True))


def test_a_sequence_hidden_by_the_lowest_number_has_the_mean() -> None:
    """As in eager; Lamina used to return zeros."""
    of, none = (1, 2, 3, 40), torch.zeros(1, 40, dtype=torch.int64)
    q, k, v = random(1, 2, 3, 16), random(1, 1, 40, 16), random(1, 1, 40, 16)
    (found,), _ = compute(lambda q, k, v, seen: masked(q, k, v, lowest(seen, of, q.dtype)), (q, k, v, none), FORWARD)
    near(found, v.double().mean(2, keepdim=True).expand(*of[:3], 16))


def test_keys_of_each_head() -> None:
    """If there are few queries, a single kernel handles each head's keys separately."""
    q, k, seen = random(2, 4, 2, 16), random(2, 2, 70, 16), torch.rand(2, 4, 1, 70) > 0.7
    (found,), names = compute(lambda q, k, seen: masked(q, k, k, seen), (q, k, seen), FORWARD)
    near(found, exact(q, k, k, seen))
    assert names == ["attention_bounds", "attention_forward"]
    module = graph_level(lambda q, k, seen: masked(q, k, k, seen), (q, k, seen))
    (found_op,) = (a for op in calls(module) if (a := Attention.read(op, Masks())) is not None)
    assert found_op.work.by_head and not found_op.work.is_few


def test_what_is_known_is_ours_unmeasured() -> None:
    """If the mask's meaning is known, no mask is computed. If a mask must be read, the library is kept."""
    of = (2, 2, 40, 40)
    inputs = random(2, 2, 40, 64), there(2, 40)
    for build, ours in ((causal_window, True), (window, True), (lowest, False)):
        program = program_of(graph_level(lambda q, seen, build=build: masked(q, q, q, build(seen, of, q.dtype)), inputs))
        assert ("lamina.attention_forward" in [s.callee for s in program.steps if isinstance(s, Call)]) == ours
    program = program_of(graph_level(lambda q: plain(q, q, q), inputs[:1]))
    assert [s.reason for s in program.steps if isinstance(s, Call)] == ["library"]
