"""Tests masks of known meaning on a GPU: Lamina kernels skip what they hide; compares with float64, through both entry points."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from attention_masks import Builder, Scores, causal_slopes, causal_window, keys, lengths, lowest, slopes, window
from attention_programs import exact, masked
from test_on_gpu_attention import ENTRY_POINTS, compiled, computed, near, random
from torch import Tensor

import lamina

BF16 = torch.bfloat16
FORWARD = ("forward{m=64 n=64}", "forward{m=128 n=64 warps=8}")


def there(batch: int, count: int) -> Tensor:
    """All keys, the first, the last, some in between, none."""
    at = torch.arange(count, device="cuda")
    kinds = (at >= 0, at < count * 2 // 3, at >= count // 3, (at > 1) & (at % 3 > 0), at < 0)
    return torch.stack(kinds[:batch]).long()


def check(build: Builder, of: Scores, schedule: str, size: int = 64) -> None:
    q, k, v, seen = random(*of[:3], size), random(of[0], 2, of[3], size), random(of[0], 2, of[3], size), there(of[0], of[3])
    found = computed(lambda q, k, v, seen: masked(q, k, v, build(seen, of, q.dtype)), (q, k, v, seen), schedule)
    wide = torch.float64 if build in (slopes, causal_slopes) else BF16
    near(found, exact(q, k, v, build(seen.cpu(), of, wide).cuda()))


@pytest.mark.parametrize("schedule", FORWARD)
@pytest.mark.parametrize("build", [causal_window, window, keys, lengths, causal_slopes], ids=lambda f: f.__name__)
def test_forward(build: Builder, schedule: str) -> None:
    check(build, (4, 4, 333, 333), schedule)


@pytest.mark.parametrize("build", [causal_window, causal_slopes, lengths], ids=lambda f: f.__name__)
def test_large_heads(build: Builder) -> None:
    check(build, (3, 4, 200, 200), "forward{m=128 n=64 warps=8}", 128)


def test_by_descriptors() -> None:
    """Blocks that flags and bounds cut need no mask."""
    for build in (window, lengths):
        check(build, (3, 4, 300, 300), "forward{m=128 n=64 warps=8 stages=3 descriptors=1}", 128)


@pytest.mark.parametrize("build", [keys, lengths, slopes, lowest], ids=lambda f: f.__name__)
def test_keys_in_parts(build: Builder) -> None:
    check(build, (4 if build is lowest else 5, 4, 1, 1000), "split{n=64 parts=7}")


@pytest.mark.parametrize("count", [1, 3, 127])
def test_few_keys(count: int) -> None:
    check(causal_window, (3, 4, count, count), FORWARD[0])


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_sliding_windows_and_padding_of_models(entry_point: str) -> None:
    """The mask is not computed: it would have 1001 keys, which no library takes without padding."""
    count = 1001
    q, k, seen = random(2, 8, count, 64), random(2, 8, count, 64), there(2, count).bool()

    def fn(q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        at, batch = torch.arange(count, device=q.device), torch.arange(2, device=q.device)[:, None, None, None]
        mask = (at <= at[:, None]) & (at > at[:, None] - 100) & seen[batch, at]
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    at = torch.arange(count, device="cuda")
    mask = (at <= at[:, None]) & (at > at[:, None] - 100) & seen[:, None, None]
    with torch.no_grad():
        near(compiled(entry_point, fn, (q, k, seen))(q, k, seen), exact(q, k, k, mask))
        found = lamina.explain(fn, (q, k, seen), options={"tune": "off"}, show=False)
    names = [kernel.name for kernel in found.graphs[0].kernels]
    assert names[-2:] == ["attention_bounds", "attention_forward"] and not found.graphs[0].externals


@pytest.mark.parametrize("count", [1, 13, 1000])
def test_masks_of_any_number_of_keys_stay_whole(count: int) -> None:
    """A mask of unknown meaning is read by a fused kernel, also if the number of keys is no multiple of 8."""
    q, k, mask = random(2, 4, 70, 64), random(2, 4, count, 64), random(2, 1, 70, count)

    def fn(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)

    with torch.no_grad():
        near(lamina.compile(fn, (q, k, mask), options={"cache": False})(q, k, mask), exact(q, k, k, mask))


def test_a_sequence_hidden_by_the_lowest_number_has_the_mean() -> None:
    of = (1, 4, 70, 200)
    q, k, v = random(*of[:3], 64), random(1, 4, 200, 64), random(1, 4, 200, 64)
    none = torch.zeros(1, 200, dtype=torch.int64, device="cuda")
    found = computed(lambda q, k, v, seen: masked(q, k, v, lowest(seen, of, q.dtype)), (q, k, v, none), FORWARD[0])
    near(found, v.double().mean(2, keepdim=True).expand(1, 4, 70, 64))


@pytest.mark.parametrize("size", [64, 128])
def test_blocks_that_a_mask_of_bools_hides_are_skipped(size: int) -> None:
    """Squares, with holes in the second sequence of the batch, and queries that see no key; bool masks, and masks that are
    added."""
    q, k, v = random(2, 4, 1100, size), random(2, 2, 1333, size), random(2, 2, 1333, size)
    at, key = torch.arange(1100, device="cuda")[:, None], torch.arange(1333, device="cuda")
    seen = ((at // 300 == key // 250) | ((key < 100) & (at < 700)))[None, None].repeat(2, 1, 1, 1)
    seen[1] &= torch.rand(1100, 1333, device="cuda") > 0.1
    seen[:, :, 500], seen[:, :, 640:768] = False, False
    added = torch.where(seen, torch.where(key < 900, 0.0, 0.5), -torch.inf).to(BF16)
    for schedule in (f"{text[:-1]} blocks=1}}" for text in FORWARD):
        for mask in (seen, added):
            found = computed(masked, (q, k, v, mask), schedule)
            near(found, exact(q, k, v, mask))
            assert not found[:, :, 500].any() and not found[:, :, 640:768].any()


def test_lists_of_blocks_are_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    part = torch.arange(2048, device="cuda") // 256
    q, mask = random(1, 8, 2048, 64), part[:, None] == part

    def fn(q: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    with torch.no_grad():
        found = lamina.explain(fn, (q, mask), options={"tune": "full", "cache": False}, show=False)
        (choice,) = found.graphs[0].choices
        assert any("blocks=1" in name for name, _ in choice.seconds) and not any("wrong" in why for _, why in choice.dropped)
        near(lamina.compile(fn, (q, mask), options={"cache": False})(q, mask), exact(q, q, q, mask))
