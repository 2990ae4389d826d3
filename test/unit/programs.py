"""Small programs and kernels for the tests of the runtime. Kernels are LLVM IR, compiled by llvmlite: no compiler is needed."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.binding as llvm
import torch

from lamina.core.program import Arg, Buffer, BufferKind, Call, Constant, Launch, Program, Ref, Step, TensorSpec
from lamina.runtime.executable import Executable

NAMES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool", torch.uint8: "u8",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint64: "u64", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip

# inc: out[i] = in[i] + 1 for programs of 64 elements; copy8: the same number of bytes, unchanged; bad: reports check number 1.
_IR = """
define void @inc(ptr %bufs, i64 %lo, i64 %hi) {
entry:
  %in = load ptr, ptr %bufs
  %second = getelementptr ptr, ptr %bufs, i64 1
  %out = load ptr, ptr %second
  %first = mul i64 %lo, 64
  %end = mul i64 %hi, 64
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %x = getelementptr float, ptr %in, i64 %i
  %y = getelementptr float, ptr %out, i64 %i
  %v = load float, ptr %x
  %w = fadd float %v, 1.0
  store float %w, ptr %y
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @copy8(ptr %bufs, i64 %lo, i64 %hi) {
  %in = load ptr, ptr %bufs
  %second = getelementptr ptr, ptr %bufs, i64 1
  %out = load ptr, ptr %second
  %x = getelementptr i8, ptr %in, i64 %lo
  %y = getelementptr i8, ptr %out, i64 %lo
  %n = sub i64 %hi, %lo
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %n, i1 false)
  ret void
}
define void @bad(ptr %bufs, i64 %lo, i64 %hi) {
  %third = getelementptr ptr, ptr %bufs, i64 2
  %slot = load ptr, ptr %third
  store i64 2, ptr %slot
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@dataclass(frozen=True)
class Artifact:
    code: bytes
    kernels: tuple[str, ...] = ("inc", "copy8", "bad")
    messages: tuple[str, ...] = ("a first message", "index out of range in self")
    target: str = "cpu"


def artifact() -> Artifact:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, reloc="pic", codemodel="small")
    return Artifact(machine.emit_object(llvm.parse_assembly(_IR)))


def ref(buffer: int, like: torch.Tensor, offset: int = 0) -> Ref:
    return Ref(buffer, offset, NAMES[like.dtype], tuple(like.shape), tuple(like.stride()))


def nbytes(t: torch.Tensor) -> int:
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return 0 if t.numel() == 0 else span * t.element_size()


def buffers(*kinds: tuple[BufferKind, int]) -> tuple[Buffer, ...]:
    """Returns buffers of (kind, bytes), numbered within their kind, arena buffers one after the other."""
    found, counts, offset = [], dict.fromkeys(("input", "arena", "output", "constant", "owned"), 0), 0
    for kind, size in kinds:
        found.append(Buffer(kind, counts[kind], offset if kind == "arena" else 0, size, -1))
        counts[kind] += 1
        if kind == "arena":
            offset += (size + 63) // 64 * 64
    return tuple(found)


def program(
    inputs: Sequence[torch.Tensor],
    bufs: tuple[Buffer, ...],
    steps: Sequence[Step],
    outputs: Sequence[Ref],
    constants: Sequence[Constant] = (),
) -> Program:
    arena = sum((int(b.bytes) + 63) // 64 * 64 for b in bufs if b.kind == "arena")
    specs = tuple(TensorSpec(NAMES[t.dtype], tuple(t.shape), tuple(t.stride())) for t in inputs)
    return Program(arena, arena, arena, specs, bufs, tuple(constants), tuple(steps), tuple(outputs), name="test")


def inc(source: Ref, out: Ref, **changes: Any) -> Launch:
    n = int(source.shape[0])
    return replace(Launch("inc", (source, out), 1, n // 64, 8 * n, n, "inc"), **changes)


def inc_chain(n: int, length: int) -> Program:
    """Returns a program of x + length by `length` launches over two arena buffers."""
    like = torch.empty(n)
    bufs = buffers(("input", 4 * n), ("output", 4 * n), ("arena", 4 * n), ("arena", 4 * n))
    places = [0, *(2 + i % 2 for i in range(length - 1)), 1]
    steps = [inc(ref(a, like), ref(b, like)) for a, b in itertools.pairwise(places)]
    return program([like], bufs, steps, [ref(1, like)])


def call_program(
    callee: str,
    inputs: Sequence[torch.Tensor],
    args: Sequence[Any],
    results: Sequence[torch.Tensor],
    *,
    reason: str,
    in_place: bool,
    kwargs: Sequence[tuple[str, Any]] = (),
) -> Program:
    """One call whose integers-in-`T` arguments name inputs; its results are the program's."""
    kind: BufferKind = "output" if in_place else "owned"
    bufs = buffers(*(("input", nbytes(t)) for t in inputs), *((kind, nbytes(t)) for t in results))

    def place(a: Any) -> Arg:
        if isinstance(a, T):
            return ref(a.index, inputs[a.index])
        return tuple(place(x) for x in a) if isinstance(a, list | tuple) else a

    refs = tuple(ref(len(inputs) + i, t) for i, t in enumerate(results))
    step = Call(
        callee, reason, tuple(place(a) for a in args), tuple((k, place(v)) for k, v in kwargs),
        refs if in_place else (), () if in_place else refs, callee,
    )  # fmt: skip
    return program(inputs, bufs, [step], refs)


@dataclass(frozen=True)
class T:
    """Argument `index` of the program."""

    index: int


def executable(program_: Program, frozen: Collection[int] = ()) -> Executable:
    return Executable(program_, artifact(), frozen=frozen)


def product(n: int = 64) -> tuple[Program, list[torch.Tensor]]:
    """(x + 1) @ w, then + 1 from an owned result: a library call between kernels, its weight an argument."""
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    flat, size = torch.empty(n), 4 * n
    bufs = buffers(("input", size), ("input", size), ("output", size), ("output", size), ("arena", size))
    mm = Call("aten.mm.default", "library", (ref(4, x), ref(1, w)), (), (ref(2, x),), (), "mm")
    steps = [inc(ref(0, flat), ref(4, flat)), mm, inc(ref(2, flat), ref(3, flat))]
    return program([x, w], bufs, steps, [ref(2, x), ref(3, x)]), [x, w]


def linear(m: int, n: int, k: int, bias: bool, transposed: bool = True) -> tuple[Program, list[torch.Tensor], torch.Tensor]:
    """x @ w (+ b) as a program, its weight as nn.Linear has it (`transposed`) or row by row; the result in float64."""
    x, w, b = torch.randn(m, k), torch.randn(n, k) if transposed else torch.randn(k, n), torch.randn(n)
    inputs = [x, w, b] if bias else [x, w]
    out = torch.empty(m, n)
    bufs = buffers(*(("input", nbytes(t)) for t in inputs), ("output", nbytes(out)))
    result, matrix = ref(len(inputs), out), w.t() if transposed else w
    args: tuple[Ref, ...] = (ref(0, x), ref(1, matrix))
    call = Call(
        "aten.addmm.default" if bias else "aten.mm.default",
        "library",
        (ref(2, b), *args) if bias else args,
        (),
        (result,),
        (),
        "mm",
    )
    return program(inputs, bufs, [call], [result]), inputs, x.double() @ matrix.double() + (b.double() if bias else 0)
