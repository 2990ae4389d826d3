"""Tests lamina-plan: random programs keep every live value, and the arena's size is near the lower bound."""

import random
import re
import struct

import pytest
import torch
from random_graphs import CALLS, random_graph
from reference import run
from torch_mlir import ir

from lamina.core import program_json
from lamina.core.binding.arena import ArenaSlot, live_bytes, place_slots
from lamina.core.errors import CompileError
from lamina.core.layout import Layout
from lamina.core.program import Device, Launch, Program, Ref
from lamina.dialects import context
from lamina.passes.ir.dense_bytes import dense_bytes
from lamina.passes.plan.plan import PlanPass
from lamina.passes.plan.program import program_from


def planned(text: str, device: Device = "cpu", **geometry: int) -> Program:
    """Returns the program of a graph-level module, with its kernels marked as tiled."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        PlanPass().run(module)
        assert module.operation.verify()
        values = {"grid": 1, "bytes": 1, "flops": 1, **geometry}
        for op in module.body.operations:
            if "graph.kernel" in op.attributes:
                for name, value in values.items():
                    op.attributes[f"tile.{name}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        return program_from(module, device)


def test_launches_of_a_gpu() -> None:
    graph = random_graph(0, 3)
    program = planned(graph.text, "cuda", grid=9, threads=32, pack=4)
    launches = [step for step in program.steps if isinstance(step, Launch)]
    assert program.device == "cuda" and launches
    assert {(x.grid, x.threads, x.cluster, x.shared) for x in launches} == {(3, 128, 1, 0)}
    program = planned(graph.text, "cuda", grid=9, threads=256, cluster=8, shared=4096)
    assert {(x.grid, x.threads, x.cluster, x.shared) for x in program.steps if isinstance(x, Launch)} == {(72, 256, 8, 4096)}
    with pytest.raises(CompileError, match="lacks the attribute tile.threads"):
        planned(graph.text, "cuda")
    assert {(x.grid, x.threads) for x in planned(graph.text).steps if isinstance(x, Launch)} == {(1, 0)}


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_live_values(seed: int) -> None:
    graph = random_graph(seed, size=random.Random(seed).choice([3, 12, 40]))
    program = planned(graph.text)
    kernels = {step.kernel: graph.kernels.get(step.name, lambda t: [t]) for step in program.steps if isinstance(step, Launch)}
    results = run(program, graph.inputs, kernels, CALLS)
    for result, value in zip(results, graph.returned, strict=True):
        assert torch.equal(result, value.tensor)
    own = [ref for ref in program.outputs if program.buffers[ref.buffer].kind != "input"]
    assert not any(_overlap(a, b) for i, a in enumerate(own) for b in own[:i])
    for ref, wish in zip(program.outputs, graph.wishes, strict=True):
        if "graph.strides" in wish:
            strides = tuple(map(int, re.findall(r"\d+", wish["graph.strides"])[1:]))
            assert Layout.of(ref.shape, strides).strides == ref.strides
        assert "graph.fresh" not in wish or program.buffers[ref.buffer].kind != "input"
    assert program_json.loads(program_json.dumps(program)) == program
    assert program.lower_bound <= program.arena_bytes


def _overlap(a: Ref, b: Ref) -> bool:
    (first, end), (second, second_end) = ((r.offset, r.offset + 8 * Layout.of(r.shape, r.strides).span) for r in (a, b))
    return a.buffer == b.buffer and first < second_end and second < end


def test_in_place_and_sharing_happen() -> None:
    """The random programs do exercise writing in place and sharing memory."""
    programs = [planned(random_graph(seed, size=40).text) for seed in range(20)]
    launches = [step for program in programs for step in program.steps if isinstance(step, Launch)]
    assert sum(bool(step.inplace) for step in launches) > 20
    assert len({(id(p), s.kernel) for p in programs for s in p.steps if isinstance(s, Launch)}) < len(launches) * 0.9


@pytest.mark.parametrize("seed", range(30))
def test_arena_is_near_the_lower_bound(seed: int) -> None:
    """Lifetimes are as in networks: most values die soon, a few live long, and sizes differ by powers of two."""
    rng = random.Random(seed)
    slots = []
    for first in range(rng.randrange(5, 200)):
        for _ in range(rng.randrange(1, 3)):
            reach = rng.choice([1, 1, 1, 2, 3, 5, 20])
            slots.append(ArenaSlot(first, first + rng.randrange(0, reach + 1), 64 * rng.choice([0, 1, 2, 4, 8, 16, 24, 64, 100])))
    bound = live_bytes(slots)
    arena = place_slots(slots, bound)
    assert bound <= arena <= 1.1 * bound
    for i, a in enumerate(slots):
        assert a.offset + a.bytes <= arena
        for b in slots[:i]:
            if a.first <= b.last and b.first <= a.last and a.bytes and b.bytes:
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset


def test_nothing_to_place() -> None:
    assert place_slots([], 0) == 0


def refused(text: str) -> str:
    with pytest.raises(CompileError) as error:
        planned(text)
    return str(error.value)


def test_what_cannot_be_planned_is_named() -> None:
    loose = """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = math.exp %x : tensor<4xf32> loc("m.py":3:1)
          return %y : tensor<4xf32>
        }
    """
    assert re.match("m.py:3: math.exp outside a group.*lamina-fuse", refused(loose))
    overlap = """
        func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x4xf32> {graph.strides = array<i64: 0, 1>}) { return %x : tensor<4x4xf32> }
    """
    assert "elements overlap" in refused(overlap)
    assert "static shape" in refused("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }")
    assert "no function @main" in refused("module {}")


def test_untiled_kernels_are_named() -> None:
    graph = random_graph(0, 3)
    with context(), ir.Location.unknown():
        module = ir.Module.parse(graph.text)
        PlanPass().run(module)
        with pytest.raises(CompileError, match="run lamina-tile first"):
            program_from(module)


def test_edge_shapes() -> None:
    """Scalars, empty tensors, and constants as results."""
    program = planned(
        """
        func.func @main(%e: tensor<0x3xf32>, %s: tensor<f32>, %b: tensor<2xi1>)
            -> (tensor<3x0xf32>, tensor<1xf32>, tensor<2xi1>, tensor<3xbf16>) {
          %x = tensor.empty() : tensor<3x0xf32>
          %t = linalg.transpose ins(%e : tensor<0x3xf32>) outs(%x : tensor<3x0xf32>) permutation = [1, 0]
          %u = tensor.expand_shape %s [] output_shape [1] : tensor<f32> into tensor<1xf32>
          %c = arith.constant dense<[1.0, 0x7FC0, -2.5]> : tensor<3xbf16>
          return %t, %u, %b, %c : tensor<3x0xf32>, tensor<1xf32>, tensor<2xi1>, tensor<3xbf16>
        }
        """
    )
    assert [ref.shape for ref in program.outputs] == [(3, 0), (1,), (2,), (3,)]
    assert [program.buffers[ref.buffer].kind for ref in program.outputs] == ["input", "input", "input", "output"]
    assert [spec.dtype for spec in program.inputs] == ["f32", "f32", "bool"]
    assert program.constants[0].data == bytes.fromhex("803f c07f 20c0")


def test_constants_of_every_kind() -> None:
    with context(), ir.Location.unknown():
        cases = {
            "dense<[true, false, true]> : tensor<3xi1>": b"\1\0\1",
            "dense<true> : tensor<3xi1>": b"\1\1\1",
            "dense<1.5> : tensor<2xbf16>": b"\xc0\x3f\xc0\x3f",
            "dense<-1> : tensor<1xi16>": b"\xff\xff",
            "dense<[1.0, 2.0]> : tensor<2xf32>": struct.pack("<2f", 1, 2),
            "dense<2.0> : tensor<f64>": struct.pack("<d", 2),
        }
        for text, data in cases.items():
            assert dense_bytes(ir.Attribute.parse(text)) == data, text
        blob = torch.arange(4, dtype=torch.float32).numpy()
        held = ir.DenseResourceElementsAttr.get_from_buffer(blob, "blob", ir.RankedTensorType.get([4], ir.F32Type.get()))
        assert dense_bytes(held) == blob.tobytes()
        holder = ir.Module.parse(
            "module attributes {my.a = dense_resource<r> : tensor<2xi16>} {}"
            '{-# dialect_resources: {builtin: {r: "0x0200000001000200"}} #-}'
        )
        assert dense_bytes(holder.operation.attributes["my.a"]) == b"\1\0\2\0"
        many = [float(i) / 8 for i in range(300)]
        text = f"dense<{many}> : tensor<300xbf16>"
        assert dense_bytes(ir.Attribute.parse(text)) == torch.tensor(many).to(torch.bfloat16).view(torch.uint8).numpy().tobytes()
