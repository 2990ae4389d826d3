"""Tests calls of torch's fused attention kernels without a GPU: which is chosen, and its operands' form, which stand-ins check."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from attention_programs import attention, exact, graph_level, program_of, run_program
from attention_training import backward, exact_gradients, exact_sums
from torch import Tensor

from lamina.core.program import Call, Launch, Program, Ref
from lamina.passes.families.attention.torch_kernels.kernel import Case
from lamina.passes.families.attention.torch_kernels.registry import TORCH_KERNELS, preferred

aten = torch.ops.aten
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
FLASH, EFFICIENT, CUDNN = "flash", "efficient", "cudnn"
CPU = "_scaled_dot_product_flash_attention_for_cpu"


def forward(vendor: str, q: Tensor, k: Tensor, v: Tensor, *rest: Any, scale: float) -> Sequence[Tensor | None]:
    bias, asked, dropout, causal = (None, True, *rest[:2]) if vendor == FLASH else rest[:4]
    assert all(t is None or t.stride(-1) == 1 or t.shape[-1] == 1 for t in (q, k, v, bias))
    assert dropout == 0 and q.shape[3] == k.shape[3] and (vendor != EFFICIENT or q.shape[1] == k.shape[1] == v.shape[1])
    assert vendor != FLASH or (q.shape[3] % 8 == 0 and q.shape[3] == v.shape[3])
    assert bias is None or (bias.dtype is q.dtype and (vendor != EFFICIENT or bias.shape == (*q.shape[:3], k.shape[2])))
    sums = exact_sums(q, k, bias, causal, scale).float()
    if vendor == EFFICIENT:
        sums = torch.nn.functional.pad(sums, (0, -q.shape[2] % 32), value=torch.inf)
    sums = (sums[..., None] if vendor == CUDNN else sums) if asked else sums[:0]
    found = [exact(q, k, v, bias, causal, scale).to(q.dtype), sums]
    return [*found, *[None] * ((4 if vendor == EFFICIENT else 9) - 2)]


def gradients(vendor: str, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any, scale: float) -> Sequence[Tensor | None]:
    asked, bias = [True] * 3, None
    if vendor == EFFICIENT:
        bias, out, sums, *seeds, dropout, asked, causal = rest
        assert out.stride(2) == out.shape[1] * out.shape[3]  # it does not ask for this stride
        assert sums.shape[2] % 32 == 0 and bool((sums[..., q.shape[2] :] == torch.inf).all())
        sums = sums[..., : q.shape[2]]
    elif vendor == FLASH:
        out, sums, _, _, queries, keys, dropout, causal, *seeds = rest
    else:
        out, sums, *seeds, bias, _, _, queries, keys, dropout, causal = rest
        sums = sums[..., 0]
    assert vendor == EFFICIENT or (queries, keys) == (q.shape[2], k.shape[2])
    assert dropout == 0 and all(seed.dtype is torch.int64 for seed in seeds)
    assert all(t is None or t.stride(-1) == 1 or t.shape[-1] == 1 for t in (grad, q, k, v, out, bias))
    torch.testing.assert_close(out.double(), exact(q, k, v, bias, causal, scale), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(sums.double(), exact_sums(q, k, bias, causal, scale), rtol=1e-3, atol=1e-3)
    found: list[Tensor | None] = [t.to(q.dtype) for t in exact_gradients(grad, q, k, v, bias, causal, scale)]
    if vendor != EFFICIENT:
        return found
    if not asked[3]:
        return [*found, None]
    assert bias is not None
    wide = bias.double().requires_grad_()
    with torch.enable_grad():
        scores = q.double() @ k.double().mT * scale + wide
        (to_bias,) = torch.autograd.grad(scores.softmax(-1) @ v.double(), wide, grad.double())
    return [*found, to_bias.to(bias.dtype)]


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in (FLASH, EFFICIENT, CUDNN):
        for name, fn in (("", forward), ("_backward", gradients)):
            packet = getattr(aten, f"_scaled_dot_product_{vendor}_attention{name}")
            monkeypatch.setattr(packet, "default", lambda *args, fn=fn, vendor=vendor, **named: fn(vendor, *args, **named))


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    assert float((found.double() - want).norm()) <= 8e-3 * float(want.norm())


def calls(program: Program) -> list[Call]:
    return [s for s in program.steps if isinstance(s, Call)]


# kernels that settings allow; batch, heads, heads of keys, queries, keys, size, size of values; type; mask
CASES: dict[str, tuple[str, tuple[int, ...], torch.dtype, Callable[[], Tensor] | None, bool]] = {
    "flash": (FLASH, (2, 2, 2, 5, 5, 16, 16), BF16, None, True),
    "flash, odd heads that are shared": (FLASH, (2, 4, 2, 7, 9, 20, 20), F16, None, False),
    "cudnn": (CUDNN, (2, 4, 2, 5, 9, 16, 24), BF16, None, False),
    "cudnn, a mask": (CUDNN, (2, 2, 2, 5, 9, 16, 16), BF16, lambda: random(2, 1, 1, 9), False),
    "efficient": (EFFICIENT, (2, 2, 2, 33, 9, 16, 8), F32, None, True),
    "efficient, a full multiple": (EFFICIENT, (1, 2, 2, 64, 16, 16, 16), BF16, lambda: random(1, 2, 64, 16), False),
    "efficient, of keys": (EFFICIENT, (2, 2, 2, 5, 9, 16, 16), BF16, lambda: random(2, 1, 1, 9), False),
    "efficient, one key": (EFFICIENT, (2, 2, 2, 5, 1, 16, 16), BF16, lambda: random(2, 1, 5, 1), False),
    "efficient, of heads": (EFFICIENT, (2, 2, 2, 5, 9, 16, 16), F32, lambda: random(1, 2, 5, 9, dtype=F32), False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_both_passes(name: str) -> None:
    """Calls the right kernel, with operands in the kernel's form and results in the op's."""
    vendor, (batch, heads, kv_heads, queries, keys, size, values), dtype, make, causal = CASES[name]
    q, k = random(batch, heads, queries, size, dtype=dtype), random(batch, kv_heads, keys, size, dtype=dtype)
    v, grad = random(batch, kv_heads, keys, values, dtype=dtype), random(batch, heads, queries, values, dtype=dtype)
    mask = [] if make is None else [make()]

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        m = given[0] if given else None
        made = attention(q, k, v, m, causal, 0.3, vendor)
        return (*made, *backward(grad, q, k, v, made, m, causal, 0.3, vendor))

    module = graph_level(fn, (grad, q, k, v, *mask))
    program = program_of(module, "library")
    assert [s.callee for s in calls(program)] == [
        f"aten._scaled_dot_product_{vendor}_attention{e}.default" for e in ("", "_backward")
    ]
    (out, sums, *found), _ = run_program(module, program, (grad, q, k, v, *mask))
    near(out, exact(q, k, v, *(mask or [None]), causal, 0.3))
    near(sums, exact_sums(q, k, *(mask or [None]), causal, 0.3))
    for one, want in zip(found, exact_gradients(grad, q, k, v, *(mask or [None]), causal, 0.3), strict=True):
        near(one, want)


def test_the_gradient_of_a_mask() -> None:
    q, grad, mask = random(2, 2, 5, 16), random(2, 2, 5, 16), random(2, 2, 5, 5)

    def fn(grad: Tensor, q: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        made = attention(q, q, q, mask)
        return backward(grad, q, q, q, made, mask, trains_mask=True)

    module = graph_level(fn, (grad, q, mask))
    program = program_of(module)
    assert calls(program)[-1].callee == "aten._scaled_dot_product_efficient_attention_backward.default"
    *_, found = run_program(module, program, (grad, q, mask))[0]
    wide = mask.double().requires_grad_()
    y = (q.double() @ q.double().mT / 4 + wide).softmax(-1) @ q.double()
    near(found, torch.autograd.grad(y, wide, grad.double())[0])


@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("keys", [1, 8, 49, 64, 127])
def test_rows_of_biases_are_aligned(keys: int, dtype: torch.dtype) -> None:
    """Rows start at multiples of 16 bytes, and biases are not expanded in memory over batch and heads."""
    q, k, mask = random(4, 3, 5, 16, dtype=dtype), random(4, 3, keys, 16, dtype=dtype), random(1, 3, 5, keys, dtype=dtype)
    module = graph_level(lambda q, k, m: attention(q, k, k, m * 2, False, None, EFFICIENT)[0], (q, k, mask))
    program = program_of(module, "library")
    (call,) = calls(program)
    bias = call.args[3]
    assert isinstance(bias, Ref) and bias.shape == (4, 3, 5, keys) and bias.strides[3] == 1
    assert all(s * dtype.itemsize % 16 == 0 for s in bias.strides[:3] if isinstance(s, int)) and bias.strides[0] == 0
    near(run_program(module, program, (q, k, mask))[0][0], exact(q, k, k, mask * 2))


@pytest.mark.parametrize("vendor", [CUDNN, EFFICIENT])
def test_rows_are_contiguous_and_aligned(vendor: str) -> None:
    """Also for views, since the kernels do not check: heads with non-contiguous elements, a table of positions by heads, and
    memory that starts at an odd offset."""
    grad, q, k, table = random(2, 4, 5, 16), random(2, 4, 16, 5), random(2, 4, 9, 17), random(5, 9, 4)

    def views(q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q.mT, k[..., 1:], table.permute(2, 0, 1)[None]

    def fn(grad: Tensor, q: Tensor, k: Tensor, table: Tensor) -> tuple[Tensor, ...]:
        query, key, mask = views(q, k, table)
        made = attention(query, key, key, mask, False, 0.3, vendor)
        return (made[0], *backward(grad, query, key, key, made, mask, False, 0.3, vendor))

    module = graph_level(fn, (grad, q, k, table))
    program = program_of(module, "library")
    (found, *grads), _ = run_program(module, program, (grad, q, k, table))
    query, key, mask = views(q, k, table)
    near(found, exact(query, key, key, mask, False, 0.3))
    for one, want in zip(grads, exact_gradients(grad, query, key, key, mask, False, 0.3), strict=True):
        near(one, want)
    read = [a for c in calls(program) for a in c.args if isinstance(a, Ref) and a.shape]
    assert all(a.strides[-1] == 1 and a.offset % 16 == 0 for a in read if a.shape[-1] != 1)


def test_heads_are_repeated_for_the_efficient_kernel() -> None:
    q, k, v, mask = random(2, 8, 1, 64), random(2, 2, 120, 64), random(2, 2, 120, 64), random(2, 1, 1, 120)
    module = graph_level(lambda q, k, v, m: attention(q, k, v, m, False, None, EFFICIENT)[0], (q, k, v, mask))
    program = program_of(module, "library")
    (copies, call) = program.steps
    assert isinstance(copies, Launch) and isinstance(call, Call) and call.args[1].shape == (2, 8, 120, 64)  # type: ignore[union-attr]
    near(run_program(module, program, (q, k, v, mask))[0][0], exact(q, k, v, mask))


def test_rows_of_a_mask_are_aligned_once() -> None:
    q, mask = random(2, 2, 5, 16), random(2, 1, 1, 5)

    def fn(q: Tensor, mask: Tensor) -> Tensor:
        y = attention(q, q, q, mask, False, None, EFFICIENT)[0]
        return attention(y, q, q, mask, False, None, EFFICIENT)[0].transpose(1, 2)

    module = graph_level(fn, (q, mask))
    program = program_of(module, "library")
    assert [s.name for s in program.steps if isinstance(s, Launch)].count("padded") == 1 and len(calls(program)) == 2
    found, _ = run_program(module, program, (q, mask))
    near(found[0], exact(exact(q, q, q, mask).to(BF16), q, q, mask).transpose(1, 2))


def test_a_query_in_the_order_of_cudnns_result_saves_a_copy() -> None:
    """cuDNN's result then has heads adjacent in memory, in the order in which its reader flattens it."""
    x = random(2, 5, 32)

    def fn(x: Tensor) -> Tensor:
        q = (x * 2).unflatten(-1, (2, 16)).transpose(1, 2)
        return attention(q, q, q)[0].transpose(1, 2).flatten(2)

    program = program_of(graph_level(fn, (x,)))
    assert len(program.steps) == 2 and calls(program)[0].callee.startswith("aten._scaled_dot_product_cudnn")


def test_what_no_kernel_computes_is_a_fallback() -> None:
    module = graph_level(lambda q: attention(q, q, q)[0], (random(1, 2, 5, 12, dtype=torch.float64),))
    assert [s.reason for s in calls(program_of(module))] == ["fallback"]


def case(dtype: str = "bf16", size: int = 64, values: int = 0, keys: int = 100, **more: Any) -> Case:
    return Case(dtype, (2, 4, 100, keys), size, values or size, **more)


def on_gpu(of: Case, capability: int = 80, allowed: str = TORCH_KERNELS) -> str | None:
    found = preferred(of, capability, allowed)
    return None if found is None else found.name


def on_cpu(of: Case, allowed: str = TORCH_KERNELS) -> str | None:
    found = preferred(of, None, allowed)
    return None if found is None else found.callee


@pytest.mark.parametrize(
    ("of", "hopper", "ampere"),
    [
        (case(), CUDNN, FLASH),
        (case(causal=True), CUDNN, FLASH),
        (case(causal=True, keys=90), CUDNN, EFFICIENT),
        (case(masked=True), CUDNN, EFFICIENT),
        (case(masked=True, trains_mask=True), EFFICIENT, EFFICIENT),
        (case(size=256), FLASH, FLASH),
        (case(size=512), EFFICIENT, EFFICIENT),
        (case(size=192, values=128), CUDNN, EFFICIENT),
        (case(size=20), FLASH, FLASH),
        (case(size=20, masked=True), None, None),
        (case(keys=1), FLASH, FLASH),
        (case("f32"), EFFICIENT, EFFICIENT),
        (case("f32", size=20), EFFICIENT, EFFICIENT),
        (case("f32", size=18), None, None),
        (case("f64"), None, None),
    ],
)
def test_what_torch_prefers(of: Case, hopper: str | None, ampere: str | None) -> None:
    assert (on_gpu(of, 90), on_gpu(of, 80)) == (hopper, ampere)
    assert on_gpu(of, 80, "") is None and on_gpu(of, 90, f"{FLASH} {EFFICIENT}") != CUDNN


def test_flash_attention_has_no_gradients_of_some_sizes_on_small_gpus() -> None:
    for size, kernel in ((192, FLASH), (200, EFFICIENT), (224, EFFICIENT), (232, FLASH)):
        assert on_gpu(case(size=size, backward=True), 86) == kernel
        assert on_gpu(case(size=size), 86) == on_gpu(case(size=size, backward=True), 80) == FLASH


def test_on_cpus() -> None:
    assert on_cpu(case("f64", size=13, masked=True)) == CPU == on_cpu(case())
    assert on_cpu(case(values=32)) is on_cpu(case(masked=True, trains_mask=True)) is on_cpu(case(), EFFICIENT) is None
    assert TORCH_KERNELS.split() == [FLASH, EFFICIENT, CUDNN]
