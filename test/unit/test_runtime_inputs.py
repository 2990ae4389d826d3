"""Tests arguments of the native runner whose memory differs from their values: conj and neg bits, subclasses, transforms, no
memory, tangents."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import programs as p
import pytest
import torch
from programs import T
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor

from lamina.runtime import inputs


def inc() -> Callable[..., Any]:
    return p.executable(p.inc_chain(64, 1))


def copying(like: Tensor) -> Callable[..., Any]:
    """A program that copies an argument, element by element, into a row-major result."""
    program = p.call_program(
        "aten.clone.default", [like], [T(0)], [torch.empty(like.shape, dtype=like.dtype)], reason="fallback", in_place=False
    )
    return p.executable(program)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda t: t,
    "transposed": lambda t: t.t(),
    "sliced": lambda t: t[1::2, 3:7:3],
    "expanded": lambda t: t[:, :1].expand(-1, 4),
    "unfolded": lambda t: t[0].unfold(0, 3, 1),
    "one": lambda t: t[2, 3],
    "empty": lambda t: t[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_conj_and_neg_bits_are_values(layout: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    z = torch.randn(5, 9, dtype=dtype)
    conjugate, negative = layout(z.conj()), layout(torch._neg_view(z))
    imaginary = layout(z.conj().imag)
    assert conjugate.is_conj() and negative.is_neg() and imaginary.is_neg()
    for x in (conjugate, negative, torch._neg_view(conjugate), imaginary):
        before = x.clone()
        (got,) = copying(x)(x)
        assert not got.is_conj() and not got.is_neg()
        assert torch.equal(got, x) and torch.equal(before, x)


def test_a_kernel_reads_values() -> None:
    x = torch._neg_view(torch.arange(64.0))
    assert torch.equal(inc()(x)[0], 1 - torch.arange(64.0))


def test_an_argument_among_the_results_keeps_its_bits() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    whole, row = p.ref(0, z), p.ref(0, z[1], offset=32)
    run = p.executable(p.program([z], p.buffers(("input", 96)), [], [whole, row]))
    conjugate = z.conj()
    same, first = run(conjugate)
    assert same is conjugate and first.is_conj() and torch.equal(first, conjugate[1])
    assert first.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()


def test_a_call_that_returns_a_conjugate() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    for in_place in (True, False):
        program = p.call_program("aten._conj.default", [z], [T(0)], [z], reason="fallback", in_place=in_place)
        (got,) = p.executable(program)(z)
        assert torch.equal(got, z.conj()) and not got.is_conj()


def test_ordinary_tensors_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tensor: Tensor) -> Tensor:
        raise AssertionError("looked at an ordinary tensor")

    monkeypatch.setattr(inputs, "resolved", fail)
    run = inc()
    with torch.inference_mode():
        made_there = torch.zeros(64)
    shared = torch.zeros(100)[36:]
    for x in (torch.zeros(64), torch.nn.Parameter(torch.zeros(64)), torch.zeros(64).requires_grad_() * 1, made_there, shared):
        assert run(x)[0].sum() == 64
    empty = torch.empty(0, 3)
    assert copying(empty)(empty)[0].shape == (0, 3)
    with pytest.raises(AssertionError, match="looked"):
        run(torch._neg_view(torch.zeros(64)))


FIRST_USE = """
import gc, os, sys, torch, torch._dynamo, torch._inductor.pattern_matcher, lamina.frontend.compiling.stages, lamina.frontend.entry.dynamo
from torch._subclasses.fake_tensor import FakeTensorMode
import lamina._native as native
from lamina.runtime import inputs

gc.freeze()
modes = {"fake": FakeTensorMode, "inference": torch.inference_mode, "device": lambda: torch.device("meta"), "compilation": None}
for name, mode in modes.items():
    if child := os.fork():
        if status := os.waitpid(child, 0)[1]:
            sys.exit(f"{name}: {os.waitstatus_to_exitcode(status)}")
        continue
    if mode is not None:
        with mode():
            run = native.BySizes([(0, 0, False)], lambda key: (None, None), 1)
    inputs.resolved = lambda tensor: sys.exit("looked at an ordinary tensor")
    compiled = torch.compile(torch.nn.Linear(4, 4), backend="lamina", dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(3, 4))
    compiled(torch.randn(3, 4)).sum().backward()
    print(name, flush=True)
    os._exit(0)  # at once: to take down all that is imported takes a second
"""


def test_the_quick_way_is_found_in_any_mode(tmp_path: Path, run_module: list[str]) -> None:
    """The native part reads how tensors are laid out at its first use in a process, possibly during a compilation under a fake
    tensor mode. Each mode runs in its own process, forked from one that has done the imports."""
    (tmp_path / "first_use.py").write_text(FIRST_USE)
    done = subprocess.run([*run_module, "first_use"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["fake", "inference", "device", "compilation"]), done.stderr


class Plain(torch.Tensor):
    """Its results are of this class in eager."""


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


class Data(torch.Tensor):
    """Plain data, of no consequence to torch."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Weight(torch.nn.Parameter):
    pass


def resized(offset: int) -> Tensor:
    x = torch.zeros(64 + offset)[offset:]
    x.untyped_storage().resize_(0)
    return x


def fake(offset: int) -> Tensor:
    with FakeTensorMode():
        return torch.zeros(64 + offset)[offset:]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (fake(0), "argument 0 must be a tensor with memory; it is a FakeTensor"),
        (fake(36), "argument 0 must be a tensor with memory; it is a FakeTensor"),
        (TwoTensor(torch.zeros(64), torch.zeros(64)), "must be a tensor with memory; it is a TwoTensor"),
        (torch.zeros(64).as_subclass(Plain), r"is a Plain, whose __torch_function__.* pass it .as_subclass\(torch.Tensor\)"),
        (torch.zeros(64).as_subclass(Overriding), "is a Overriding, whose __torch_function__ compiled code does not call"),
        (resized(0), "has no memory: its storage was resized to 0"),
        (resized(1 << 20), "has no memory: its storage was resized to 0"),
    ],
)  # fmt: skip
def test_tensors_that_are_not_their_memory(x: Tensor, message: str) -> None:
    run = inc()
    with pytest.raises(TypeError, match=message):
        run(x)
    assert run(torch.zeros(64))[0].sum() == 64


def test_subclasses_of_plain_data() -> None:
    run = inc()
    with torch._C.DisableTorchFunctionSubclass():  # as in the code that torch.compile makes, which gives results their class
        assert run(torch.zeros(64).as_subclass(Plain))[0].sum() == 64
    for x in (torch.zeros(64).as_subclass(Data), Weight(torch.zeros(64))):
        (y,) = run(x)
        assert type(y) is Tensor and y.sum() == 64


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (torch.func.functionalize, "functionalize"),
        (torch.func.vmap, "vmap"),
        (lambda f: torch.func.grad(lambda x: f(x)[0].sum()), "grad, vjp or jvp"),
        (lambda f: lambda x: torch.func.jvp(f, (x,), (x,)), "grad, vjp or jvp"),
    ],
)
def test_transforms_cannot_look_into_compiled_code(transform: Callable[..., Any], name: str) -> None:
    run = inc()
    x = torch.zeros(3, 64) if name == "vmap" else torch.zeros(64)
    with pytest.raises(TypeError, match=f"is a tensor of torch.func.{name}, which cannot look into compiled code"):
        transform(run)(x)


def test_zero_tensors_are_zeros() -> None:
    assert inc()(torch._efficientzerotensor(64))[0].sum() == 64


def test_tangents_are_not_dropped() -> None:
    run = inc()
    with forward_ad.dual_level():
        assert run(torch.zeros(64))[0].sum() == 64
        with pytest.raises(TypeError, match="argument 0 has a forward-mode tangent, which compiled code does not carry"):
            run(forward_ad.make_dual(torch.zeros(64), torch.ones(64)))
    assert run(torch.zeros(64))[0].sum() == 64


def test_wrong_arguments_with_bits_are_named() -> None:
    z = torch.randn(4, dtype=torch.complex64)
    run = copying(z)
    with pytest.raises(TypeError, match="argument 0 must have dtype torch.complex64; it has torch.complex128"):
        run(z.to(torch.complex128).conj())
    with pytest.raises(ValueError, match=r"argument 0 must have shape \[4\]; it has \[3\]"):
        run(z[:3].conj())


def test_a_list_of_arguments_lives_through_its_copies() -> None:
    x = torch._neg_view(torch.arange(64.0))
    given = [x]
    assert torch.equal(inc()(given)[0], 1 - torch.arange(64.0)) and not given
