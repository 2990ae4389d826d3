"""Tests attention by Lamina kernels on a GPU: each schedule against float64, and as lamina.compile and torch.compile choose it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_programs import exact, graph_level, masked, plain, program_of
from torch import Tensor, nn

import lamina
from lamina.core.gpu import Gpu
from lamina.core.program import Program
from lamina.core.program_needs import with_needs
from lamina.core.target import Target
from lamina.passes.families import choice as choices
from lamina.passes.families.attention.cost import AttentionWork, candidates
from lamina.runtime.executable import Executable
from lamina.targets import backend
from lamina.targets.kernel_calls.user import take

LIBRARY = str(choices.LIBRARY)

BF16, F16 = torch.bfloat16, torch.float16
ENTRY_POINTS = ("lamina.compile", "torch.compile")


def gpu() -> Gpu:
    return Gpu.of_capability(*torch.cuda.get_device_capability())


def computed(fn: Callable[..., Any], inputs: Sequence[Tensor], schedule: str) -> Tensor:
    """By a schedule. The function is traced on the CPU, for a GPU."""
    module = graph_level(fn, [torch.empty_like(x, device="cpu") for x in inputs])
    program: Program = program_of(module, schedule)
    program, ready = take(program, (), gpu())
    artifact = backend(Target.parse(f"nvvm:{gpu().arch}")).compile(module, ready)
    run = Executable(with_needs(program, artifact.needs), artifact)
    run.load(0)
    (found,) = run(*inputs)
    return found


def near(found: Tensor, want: Tensor) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm() / want.norm())
    assert far <= {BF16: 5e-3, F16: 8e-4}[found.dtype], far


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


@pytest.mark.parametrize(("size", "dtype"), [(64, BF16), (64, F16), (80, BF16), (128, BF16), (256, BF16)])
def test_each_schedule_of_many_queries(size: int, dtype: torch.dtype) -> None:
    q, k, v = (random(2, n, 333, size, dtype=dtype) for n in (4, 2, 2))
    for config in candidates(AttentionWork(2, 4, 2, 333, 333, size, size, causal=True), gpu()):
        near(computed(lambda q, k, v: plain(q, k, v, True), (q, k, v), str(config)), exact(q, k, v, causal=True))


@pytest.mark.parametrize("size", [64, 96, 128, 256])
def test_each_schedule_of_few_queries(size: int) -> None:
    q, k, v = random(3, 8, 1, size), random(3, 2, 1000, size), random(3, 2, 1000, size)
    for config in candidates(AttentionWork(3, 8, 2, 1, 1000, size, size), gpu()):
        near(computed(plain, (q, k, v), str(config)), exact(q, k, v))


@pytest.mark.parametrize("schedule", ["forward{m=64 n=64}", "split{n=64 parts=5}"])
def test_masks(schedule: str) -> None:
    q, k, v = random(2, 4, 9, 64), random(2, 4, 200, 64), random(2, 4, 200, 64)
    for mask in (random(2, 1, 9, 200), torch.where(torch.rand(2, 1, 1, 200, device="cuda") > 0.5, 0.0, -torch.inf).to(BF16)):
        near(computed(masked, (q, k, v, mask), schedule), exact(q, k, v, mask))


def test_heads_are_read_where_they_lie() -> None:
    def fn(x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in x.chunk(3, -1))
        return plain(q, k, v, True).transpose(1, 2).flatten(2)

    x = random(2, 100, 768)
    q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in x.chunk(3, -1))
    near(computed(fn, (x,), "forward{m=64 n=64 descriptors=1}"), exact(q, k, v, causal=True).transpose(1, 2).flatten(2))


def compiled(entry_point: str, fn: Callable[..., Any], inputs: tuple[Tensor, ...], **options: Any) -> Callable[..., Any]:
    given = {"strict": True, "cache": False, **options}
    if entry_point == "lamina.compile":
        return lamina.compile(fn, inputs, options=given)
    torch._dynamo.reset()
    return torch.compile(fn, backend="lamina", options=given)


def decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_few_queries_that_share_keys_are_ours(entry_point: str, graphs: bool) -> None:
    q, k, v = random(2, 32, 1, 128), random(2, 4, 3001, 128), random(2, 4, 3001, 128)
    with torch.no_grad():
        run = compiled(entry_point, decode, (q, k, v), cuda_graphs=graphs)
        for _ in range(4):
            near(run(q, k, v), exact(q, k, v))
            q = random(2, 32, 1, 128)
        found = lamina.explain(decode, (q, k, v), options={"tune": "off"}, show=False)
    assert [kernel.name for kernel in found.graphs[0].kernels] == ["attention_split", "attention_join"]
    assert not found.graphs[0].externals


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def test_what_is_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    model, x = Layer().cuda().bfloat16(), random(4, 500, 256)
    with torch.no_grad():
        want = Layer().cuda().double()
        want.load_state_dict(model.state_dict())
        for tune in ("full", "cached"):
            found = lamina.explain(model, (x,), options={"tune": tune, "cache": False}, show=False)
            (choice,) = [c for c in found.graphs[0].choices if c.what.startswith("attention")]
            assert choice.what == "attention 4x4x500x64 on 4x4x500x64, causal"
            assert LIBRARY in dict(choice.seconds) and any(name.startswith("forward{") for name, _ in choice.seconds)
            assert not any("wrong numbers" in why for _, why in choice.dropped)
        far = (lamina.compile(model, (x,), options={"cache": False})(x).double() - want(x.double())).norm() / want(
            x.double()
        ).norm()
    assert float(far) < 5e-3


def test_gradients_are_the_librarys() -> None:
    model, x = Layer().cuda().bfloat16(), random(4, 500, 256).requires_grad_()
    run = lamina.compile(model, (x,), options={"cache": False})
    wide = Layer().cuda().double()
    wide.load_state_dict(model.state_dict())
    (mine,) = torch.autograd.grad(run(x).float().square().sum(), x)
    y = x.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(wide(y).square().sum(), y)
    assert float((mine.double() - want).norm() / want.norm()) < 2e-2


@pytest.mark.parametrize("causal", [True, False])
def test_several_blocks_of_queries_a_program(causal: bool) -> None:
    """With the kernel that has as many programs as the GPU has multiprocessors."""
    if gpu().arch != "sm_90a":
        pytest.skip("kernels in Gluon are compiled for Hopper alone (sm_90a)")
    q, k, v = (random(1, 70, 1000, 128) for _ in range(3))
    for schedule in ("specialized{n=128 groups=2 stages=2}", "specialized{n=64 groups=3 stages=3}"):
        near(computed(lambda q, k, v: plain(q, k, v, causal), (q, k, v), schedule), exact(q, k, v, causal=causal))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_trained_table_of_positions_is_added(dynamic: bool) -> None:
    """The library reads masks without checking their strides or alignment."""

    def attend(q: Tensor, table: Tensor) -> Tensor:
        bias = table.permute(2, 0, 1)[None]
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias)

    for length in (250, 64, 131) if dynamic else (250,):
        q, table = random(3, 4, length, 64), random(length, length, 4)
        results = []
        for fn, dtype in ((torch.compile(attend, backend="lamina", dynamic=dynamic), q.dtype), (attend, torch.float64)):
            given = [t.detach().to(dtype).requires_grad_() for t in (q, table)]
            with torch.enable_grad():
                out = fn(*given)
                out.square().sum().backward()
            results.append([out, *(t.grad for t in given)])
        for mine, right in zip(*results, strict=True):
            assert float((mine.double() - right).norm()) <= 2e-2 * float(right.norm())
