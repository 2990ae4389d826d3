"""Tests core/binding: programs with symbolic sizes, planned once, keep their values at any sizes of a call."""

import random
import re
from dataclasses import replace

import pytest
import torch
from random_graphs import CALLS, random_graph
from reference import run
from test_plan import planned
from torch import nn
from watched import compiled_programs

from lamina.core.binding.arena import ALIGN
from lamina.core.binding.bind import MOST_BYTES, ProgramBinding
from lamina.core.program import Buffer, Launch, Program, Ref
from lamina.core.sizes import Size, SizeLike, evaluate, minimum
from lamina.frontend.entry.dynamo import backend

S, T = Size.of("s0", 8), Size.of("s1", 128)


def scaled(text: str, factor: int | None) -> str:
    """Returns the text of a random graph with all its sizes times a factor: a number, or the symbol s0 (None)."""
    used: set[int] = set()

    def size(n: int, power: int = 1) -> str:
        times = "*".join([str(n)] * (n != 1) + ["s0~2"] * power)
        return str(n * factor**power) if factor else f'"{times}"'

    def operand(text: str) -> str:
        used.add(n := int(text))
        return str(n * factor) if factor else f"%size{n}" if n else "0"

    def line(text: str) -> str:
        def type_(match: re.Match[str]) -> str:
            shape = [int(n) for n in match[1].split("x")]
            sizes = [size(n, 2 if len(shape) == 1 and "_shape" in text else 1) for n in shape]  # only reshapes merge two sizes
            return f"tensor<{'x'.join(sizes)}xi64>" if factor else f"tensor<{'?x' * len(shape)}i64, [{', '.join(sizes)}]>"

        def strides(match: re.Match[str]) -> str:
            a, b = int(match[1]), int(match[2])
            pair = f"{size(a)}, 1" if b == 1 else f"{a}, {size(b)}"
            return f"array<i64: {pair}>" if factor else f"[{pair}]"

        def operands(match: re.Match[str]) -> str:
            return re.sub(r"\d+", lambda n: operand(n[0]), match[0])

        out = re.sub(r"array<i64: (\d+), (\d+)>", strides, text)
        out = re.sub(r"(?<=output_shape )\[\d+, \d+\]|\[\d+, 0\] \[\d+, \d+\](?= \[1, 1\])", operands, out)
        if not factor:
            out = re.sub(
                r"tensor\.empty\(\) : tensor<([\dx]+)xi64>",
                lambda m: m[0].replace("()", f"({', '.join(map(operand, m[1].split('x')))})"),
                out,
            )
        return re.sub(r"tensor<([\dx]+)xi64>", type_, out)

    head, *body = map(line, text.splitlines())
    sizes = [f'  %size{n} = "graph.size"() {{size = {size(n)}}} : () -> index' for n in sorted(used - {0})] if not factor else []
    return "\n".join([head, *sizes, *body])


def launches(program: Program) -> list[Launch]:
    return [step for step in program.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_keep_live_values_at_every_size(seed: int) -> None:
    """One plan is bound to several sizes; values, memory and peak equal those of a separate plan for each size."""
    graph = random_graph(seed, size=random.Random(seed).choice([3, 12, 40]))
    if re.search(r"tensor<1x|x1xi64", graph.text):
        pytest.skip("strides of dimensions of 1 say nothing")
    program = planned(scaled(graph.text, None))
    kernels = {step.kernel: graph.kernels.get(step.name, lambda t: [t]) for step in launches(program)}
    for factor in (2, 3, 5):
        static = planned(scaled(graph.text, factor))
        inputs = [torch.empty_strided(spec.shape, spec.strides, dtype=torch.int64).random_(-5, 6) for spec in static.inputs]
        twins = {step.kernel: graph.kernels.get(step.name, lambda t: [t]) for step in launches(static)}
        now = ProgramBinding(program)({"s0": factor})
        for got, want in zip(run(now, inputs, kernels, CALLS), run(static, inputs, twins, CALLS), strict=True):
            assert torch.equal(got, want) and got.stride() == want.stride()
        assert now.lower_bound <= now.arena_bytes <= static.arena_bytes * 1.1
        assert [step.inplace for step in launches(now)] == [step.inplace for step in launches(static)]


def chain(sizes: list[SizeLike], inplace: set[int], reach: list[int]) -> Program:
    """A program of one launch a buffer, which reads the one before, over which the numbers in `inplace` are written."""
    steps, buffers = [], []
    for i, size in enumerate(sizes):
        buffers.append(Buffer("arena", i, 0, size, min(i + reach[i], len(sizes) - 1)))
        refs = tuple(Ref(b, 0, "u8", (sizes[b],), (1,)) for b in ((i - 1, i) if i else (i,)))
        steps.append(Launch("k", refs, 1, size // 64 + 1, size, size, "k", inplace=((0, 1),) if i in inplace else ()))
    return Program(0, 0, 0, (), tuple(buffers), (), tuple(steps), ())


@pytest.mark.parametrize("seed", range(30))
def test_memory_in_use_does_not_overlap(seed: int) -> None:
    """Binds calls that differ in which of two sizes is larger."""
    rng = random.Random(seed)
    count = rng.randrange(3, 30)
    sizes = [rng.choice([S * 4, T * 4, S * T, 16 * S + 4, S * S, minimum(S, T) * 8, 64]) for _ in range(count)]
    inplace = {i for i in range(1, count) if sizes[i] == sizes[i - 1] and rng.random() < 0.7}
    reach = [rng.choice([1, 1, 2, 5]) if i + 1 not in inplace else 1 for i in range(count)]
    program = chain(sizes, inplace, reach)
    for _ in range(5):
        symbols = {"s0": rng.randrange(2, 300), "s1": rng.randrange(2, 300)}
        now = ProgramBinding(program)(symbols)
        assert [b.bytes for b in now.buffers] == [evaluate(n, symbols) for n in sizes]
        assert [(x.grid, x.args[-1].shape) for x in launches(now)] == [(b.bytes // 64 + 1, (b.bytes,)) for b in now.buffers]
        assert now.lower_bound <= now.arena_bytes and now.sum_bytes == sum(b.bytes for b in now.buffers)
        for i, a in enumerate(now.buffers):
            assert a.offset % ALIGN == 0 and a.offset + a.bytes <= now.arena_bytes
            assert i not in inplace or a.offset == now.buffers[i - 1].offset
            for j, b in enumerate(now.buffers[:i]):
                if b.last >= i and not set(range(j + 1, i + 1)) <= inplace:
                    assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset


def test_sizes_are_constants_of_a_call() -> None:
    program = replace(chain([S], set(), [1]), sizes=((S * 16, T), (T + 1,)))
    program = replace(program, buffers=(*program.buffers, Buffer("sizes", 0, 0, 16, 0), Buffer("sizes", 1, 0, 8, 0)))
    now = ProgramBinding(program)({"s0": 3, "s1": 5})
    assert now.sizes == () and [(b.kind, b.index, b.bytes) for b in now.buffers[1:]] == [("constant", 0, 16), ("constant", 1, 8)]
    assert [torch.frombuffer(bytearray(c.data), dtype=torch.int64).tolist() for c in now.constants] == [[48, 5], [6]]


def test_memory_beyond_64_bits_is_an_error() -> None:
    program = chain([S * T * 4], set(), [1])
    assert ProgramBinding(program)({"s0": 1 << 29, "s1": 1 << 30}).buffers[0].bytes == MOST_BYTES // 2
    with pytest.raises(OverflowError, match=f"a tensor of {MOST_BYTES} bytes"):
        ProgramBinding(program)({"s0": 1 << 30, "s1": 1 << 30})


def backward_of(model: nn.Module, x: torch.Tensor, dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program of a training step's backward pass, which has more steps than that of the forward pass."""
    found = compiled_programs(monkeypatch)
    torch._dynamo.reset()
    torch.compile(model, backend=backend, options={"cache": False}, dynamic=dynamic)(x).sum().backward()
    monkeypatch.undo()
    assert len(found) == 2
    return max(found, key=lambda program: len(program.steps))


def test_gradients_of_an_encoder_take_as_much_memory_as_at_fixed_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    program = backward_of(layer, torch.randn(7, 11, 32, requires_grad=True), True, monkeypatch)
    hints = dict(re.findall(r"(\w+)~(\d+)", str(program)))
    for batch, length in ((2, 3), (5, 129), (33, 4)):
        static = backward_of(layer, torch.randn(batch, length, 32, requires_grad=True), False, monkeypatch)
        now = ProgramBinding(program)({name: batch if hint == "7" else length for name, hint in hints.items()})
        assert now.lower_bound <= now.arena_bytes <= 1.1 * static.arena_bytes
        assert len(now.steps) == len(static.steps)
