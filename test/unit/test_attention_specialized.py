"""Tests warp-specialized attention in the Gluon simulator against float64, and compiles it to a cubin."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton
from attention_masks import lengths
from attention_programs import attention, compute, exact, graph_level, masked, plain, program_of
from gluon_simulator import simulate
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.kernels.attention.sizes import sizes
from lamina.kernels.attention.specialized import _block, _rounds, specialized
from lamina.passes.families.attention.schedules import Specialized
from lamina.targets.kernel_calls.user import take
from lamina.targets.ptx import ptxas

SCHEDULE = "specialized{n=32 groups=2 stages=2}"
HOPPER = Gpu.named("sm_90a")


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor) -> None:
    """Weights are rounded to the type before they are multiplied, as tensor cores want them."""
    assert found.shape == want.shape and bool(found.isfinite().all())
    assert float((found.double() - want).norm() / want.norm()) <= 5e-3


@pytest.mark.parametrize("schedule", [SCHEDULE, "specialized{n=16 groups=3 stages=3}"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "length", "size", "dtype"),
    [(2, 1, 130, 16, torch.bfloat16), (2, 2, 67, 40, torch.float16), (1, 1, 1, 64, torch.bfloat16)],
)
def test_sizes(heads: int, kv_heads: int, length: int, size: int, dtype: torch.dtype, causal: bool, schedule: str) -> None:
    q = random(2, heads, length, size, dtype=dtype)
    k, v = (random(2, kv_heads, length, size, dtype=dtype) for _ in range(2))
    (found,), names = compute(lambda q, k, v: plain(q, k, v, causal), (q, k, v), schedule)
    near(found, exact(q, k, v, causal=causal))
    assert names == ["attention_specialized"]


@pytest.mark.parametrize("causal", [True, False])
def test_several_tiles_a_program(causal: bool) -> None:
    """There are more tiles than multiprocessors. Causal attention takes tiles in pairs, and half of the last pair is empty."""
    q, k, v = (random(1, 3, 300, 16) for _ in range(3))
    few = replace(HOPPER, sm_count=2)
    (found,), _ = compute(lambda q, k, v: plain(q, k, v, causal), (q, k, v), "specialized{n=64 groups=2 stages=2}", few)
    near(found, exact(q, k, v, causal=causal))


@pytest.mark.parametrize(("queries", "keys"), [(150, 70), (70, 150)])
def test_as_many_keys_as_there_are(queries: int, keys: int) -> None:
    q, k, v = random(1, 2, queries, 16), random(1, 2, keys, 16), random(1, 2, keys, 24)
    (found,), _ = compute(lambda q, k, v: masked(q, k, v, None, True), (q, k, v), SCHEDULE)
    near(found, exact(q, k, v, causal=True))


def test_window() -> None:
    q, k, v = (random(1, 2, 260, 16) for _ in range(3))

    def seen() -> Tensor:
        at = torch.arange(260)
        return ((at[None, :] <= at[:, None]) & (at[None, :] > at[:, None] - 50)).expand(1, 2, 260, 260)

    (found,), names = compute(lambda q, k, v: masked(q, k, v, seen()), (q, k, v), SCHEDULE)
    near(found, exact(q, k, v, seen()))
    assert names == ["attention_specialized"]


def test_lengths_of_sequences() -> None:
    q, k, v = (random(4, 2, 140, 16) for _ in range(3))
    there = (torch.arange(140)[None, :] < torch.tensor([140, 65, 1, 0])[:, None]).long()
    of = (4, 2, 140, 140)
    fn = lambda q, k, v, there: masked(q, k, v, lengths(there, of, q.dtype))  # noqa: E731
    (found,), names = compute(fn, (q, k, v, there), SCHEDULE)
    near(found, exact(q, k, v, lengths(there, of, q.dtype)))
    assert names[-2:] == ["attention_bounds", "attention_specialized"]


def test_logarithms_of_sums() -> None:
    """In the form that gradients read."""
    q, k, v = (random(2, 2, 201, 16) for _ in range(3))
    fn = lambda q, k, v: attention(q, k, v, None, True)  # noqa: E731
    (found, logs), _ = compute(fn, (q, k, v), SCHEDULE, replace(HOPPER, sm_count=2))
    near(found, exact(q, k, v, causal=True))
    scores = (q.double() @ k.double().mT / 4).masked_fill(~torch.ones(201, 201).bool().tril(), -torch.inf)
    torch.testing.assert_close(logs.double(), scores.logsumexp(-1), rtol=0, atol=1e-5)


def test_heads_side_by_side() -> None:
    """Queries, keys and values come from one product, as in models: positions first, heads of 48 elements in rows of 3 x 96."""
    x = random(2, 130, 3 * 96)

    def fn(x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 48)).transpose(1, 2) for part in x.chunk(3, -1))
        return plain(q, k, v, True)

    (found,), names = compute(fn, (x,), SCHEDULE)
    q, k, v = (part.unflatten(-1, (2, 48)).transpose(1, 2) for part in x.chunk(3, -1))
    near(found, exact(q, k, v, causal=True))
    assert names == ["attention_specialized"]


def test_what_descriptors_cannot_take() -> None:
    """For rows of 36 bytes, the kernel without descriptors is chosen."""
    q, k, v = (random(1, 2, 70, 18) for _ in range(3))
    (found,), names = compute(lambda q, k, v: plain(q, k, v, True), (q, k, v), SCHEDULE)
    near(found, exact(q, k, v, causal=True))
    assert names == ["attention_forward"]


def test_where_there_is_no_gluon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice pinned on another GPU, or a version of Triton that was never tested, gives the kernel without Gluon."""
    inputs = [random(1, 2, 70, 16) for _ in range(3)]
    for gpu, version in ((Gpu.named("sm_100a"), "3.7.0"), (HOPPER, "3.10.0"), (HOPPER, "4.0.0")):
        monkeypatch.setattr(triton, "__version__", version)
        (found,), names = compute(lambda q, k, v: plain(q, k, v, True), inputs, SCHEDULE, gpu)
        near(found, exact(*inputs, causal=True))
        assert names == ["attention_forward"]


@gluon.jit
def count_blocks(out, P: gl.constexpr):
    for i in range(_rounds(P)):
        _, _, start, _, _, _, count = _block(i, out, P)
        gl.store(out + start // P.ROWS, count)


def test_tiles_of_no_queries() -> None:
    """Causal attention takes tiles in pairs: a head with three tiles gets an empty fourth, which visits as few keys as possible."""
    found = torch.zeros(4, dtype=torch.int32)
    of = sizes((0, 0, 0, 0), (), 1, 1, 1, 300, 300, 16, 1.0, True, 0, 0, (), 1, 2, 32, 16, 16, 2, 1)
    simulate(count_blocks, 1, {"out": found, "P": of})
    assert found.tolist() == [4, 8, 10, 1]


def test_results_far_apart() -> None:
    """The heads' results are 2**30 elements apart, so that offsets need 64 bits."""
    q, k, v = (random(1, 3, 16, 16) for _ in range(3))
    out = torch.empty((1 << 31) + 256, dtype=torch.float8_e5m2)  # of which the system gives what is written to
    strides = (768, 256, 16, 1)
    given = {
        "q": q, "k": k, "v": v, "bounds": q, "out": out, "sums": q, "Q": strides, "K": strides, "V": strides,
        "OUT": (0, 1 << 30, 16, 1), "SUMS": (), "BATCH": 1, "HEADS": 3, "GROUP": 1, "QUERIES": 16, "KEYS": 16,
        "SIZE": 16, "VALUES": 16, "SCALE": 0.25, "CAUSAL": False, "OFFSET": 0, "WINDOW": 0, "BOUNDS": (), "TOGETHER": 3,
        "GROUPS": 2, "N": 16, "D": 16, "E": 16, "STAGES": 2, "PROGRAMS": 1,
    }  # fmt: skip
    simulate(specialized, 1, given)
    found, want = out.as_strided((3, 16, 16), (1 << 30, 16, 1)).double(), exact(q, k, v)[0]
    weights = 2.0**-8 * exact(q, k, v.abs())[0]  # a weight is rounded to bf16 before it is multiplied
    assert bool(((found - want).abs() <= want.abs() / 8 + 9 / 8 * weights + 2.0**-17).all())  # float8_e5m2: normal or subnormal


@pytest.mark.parametrize(
    "schedule", ["specialized{n=48}", "specialized{n=512}", "specialized{groups=4}", "specialized{stages=0}", "specialized{m=64}"]
)
def test_no_such_schedule(schedule: str) -> None:
    with pytest.raises(CompileError):
        Specialized.read(schedule)


@pytest.mark.parametrize(("size", "schedule"), [(64, "specialized{n=128 groups=3 stages=3}"), (256, "specialized{n=64 groups=2}")])
def test_code(size: int, schedule: str, tmp_path: Path) -> None:
    """The loading warp gives registers to those that multiply; nothing spills, and no product waits alone."""
    x = torch.zeros(2, 16, 2048, size, dtype=torch.bfloat16)
    _, (made,) = take(program_of(graph_level(lambda q, k, v: plain(q, k, v, True), (x, x, x)), schedule), (), HOPPER)
    (tmp_path / "kernel.ptx").write_text(made.compiled.ptx)
    command = [str(ptxas(HOPPER.arch)), "-v", f"-arch={HOPPER.arch}", "kernel.ptx", "-o", "kernel.cubin"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores" in said and "serialized" not in said
    assert re.search(r"setmaxnreg\.inc\.sync\.aligned\.u32 \t?(240|160);", made.compiled.ptx)
    assert made.compiled.needs.threads == (512 if "groups=3" in schedule else 384)
