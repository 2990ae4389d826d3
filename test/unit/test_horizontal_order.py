"""Tests the orders and arenas that lamina-horizontal finds for random programs: every step still reads the same values."""

import random

import pytest
from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.target import Target
from lamina.dialects import context
from lamina.passes.horizontal.arena import Packed, pack
from lamina.passes.horizontal.cost import kernels_of
from lamina.passes.horizontal.order import ordered_steps
from lamina.passes.horizontal.steps import PlannedSteps

BLOCK = 64
GPU = Gpu.named("sm_90a")
SHAPE = "tile.pack = 1 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.flops = 0 : i64"
KERNELS = {"small": (128, 1, 4096), "tiny": (32, 1, 64), "rows": (256, 1, 4096), "teams": (32, 8, 4096), "large": (128, 1, 1 << 30)}


def program(seed: int, steps: int) -> str:
    """Returns launches and calls of random buffers, some through views, some written over a buffer that is no longer needed."""
    rng = random.Random(seed)
    sizes = {f"i{n}": rng.randint(1, 9) * 16 for n in range(3)}
    uses: list[tuple[str, list[str], str]] = []
    for n in range(steps):
        ins = rng.sample(list(sizes)[-12:] if rng.random() < 0.8 else list(sizes), rng.randint(1, 3))
        sizes[f"t{n}"] = sizes[ins[0]] if rng.random() < 0.6 else rng.randint(1, 9) * 16
        uses.append((rng.choice(["call", *KERNELS]), ins, f"t{n}"))
    last = {v: n for n, (_, ins, out) in enumerate(uses) for v in (out, *ins)}
    lines = [f'%i{n} = "plan.input"() {{index = {n} : i64}} : () -> memref<{sizes[f"i{n}"]}xf32>' for n in range(3)]
    for n, (kernel, ins, out) in enumerate(uses):
        types = [f"memref<{sizes[v]}xf32>" for v in (*ins, out)]
        lines.append(f'%{out} = "plan.alloc"() {{bytes = {sizes[out] * 4} : i64, offset = 0 : i64}} : () -> {types[-1]}')
        names = [f"%{v}" for v in (*ins, out)]
        if rng.random() < 0.3:
            lines.append(f'%v{n} = "plan.view"({names[-2]}) {{offset = 0 : i64}} : ({types[-2]}) -> {types[-2]}')
            names[-2] = f"%v{n}"
        over = kernel != "call" and ins[0][0] == "t" and last[ins[0]] == n and sizes[ins[0]] == sizes[out] and rng.random() < 0.7
        what = 'callee = "aten.mm.default"' if kernel == "call" else f'kernel = @{kernel}, label = "{kernel}"'
        what += f", inplace = [array<i64: 0, {len(ins)}>]" if over else ""
        name = "call" if kernel == "call" else "launch"
        lines.append(f'"plan.{name}"({", ".join(names)}) {{{what}, n_out = 1 : i64}} : ({", ".join(types)}) -> ()')
    body = "\n".join(lines)
    return module(body)


def module(body: str) -> str:
    functions = "\n".join(
        f"func.func private @{name}(memref<16xf32>, memref<16xf32>) attributes {{{SHAPE}, tile.grid = 4 : i64, "
        f"tile.threads = {threads} : i64, tile.teams = {teams} : i64, tile.bytes = {moved} : i64}}"
        for name, (threads, teams, moved) in KERNELS.items()
    )
    return f'"plan.program"() ({{\n{body}\n"plan.return"() : () -> ()\n}}) {{sym_name = "main", arena_bytes = 0 : i64}} : () -> ()\n{functions}'


def runs_as_before(steps: PlannedSteps, bundles: list[list[int]], packed: Packed) -> None:
    """Models memory by cache lines, which record whose value they hold, and asserts that every step reads the same values."""
    memory: dict[int, ir.Value] = {}

    def places(buffer: ir.Value) -> range:
        slot = packed.slots[buffer]
        size = ir.IntegerAttr(buffer.owner.attributes["bytes"]).value
        return range(slot.offset // BLOCK, -(-(slot.offset + size) // BLOCK))

    for problem in bundles:
        some = [steps.all[n] for n in problem]
        for step in some:
            for buffer in step.reads:
                if buffer in packed.slots:
                    assert all(memory[i] == buffer for i in places(buffer)), f"{step.op} reads something else"
        for step in some:
            for buffer in step.writes:
                for i in places(buffer):
                    others = [
                        o for o in some if o is not step and any(i in places(b) for b in (*o.reads, *o.writes) if b in packed.slots)
                    ]
                    assert not others, f"{step.op} writes what a step beside it uses"
                    memory[i] = buffer


def order(parsed: ir.Module, window: int) -> tuple[PlannedSteps, list[list[int]]]:
    steps = PlannedSteps.of(next(op.operation for op in parsed.body.operations if op.operation.name == "plan.program"))
    kernels = kernels_of(parsed, Target("nvvm", GPU))
    for kernel in kernels.values():  # their bodies are not here
        kernel.size, kernel.registers = (10, 0, kernel.name != "small"), 32
    return steps, ordered_steps(steps.all, kernels, GPU, window)


@pytest.mark.parametrize("window", [64, 8])
@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int, window: int) -> None:
    parsed = ir.Module.parse(program(seed, 60), context())
    steps, bundles = order(parsed, window)
    assert sorted(n for problem in bundles for n in problem) == list(range(len(steps.all)))
    done: set[int] = set()
    for problem in bundles:
        assert all(steps.all[n].needs <= done for n in problem)
        done.update(problem)
    assert len(bundles) < len(steps.all)
    runs_as_before(steps, bundles, pack(steps, bundles))


@pytest.mark.parametrize(("elements", "bundles"), [(1024, [[0, 3], [1], [2], [4]]), (1 << 22, [[0], [1], [2], [3], [4]])])
def test_what_has_few_bytes_is_made_long_before_it_is_needed(elements: int, bundles: list[list[int]]) -> None:
    """Reading again what has left the caches by then takes less time than a launch."""
    large, small = f"memref<{1 << 24}xf32>", f"memref<{elements}xf32>"
    lines = [f'%{i} = "plan.input"() {{index = {n} : i64}} : () -> {small}' for n, i in enumerate("xy")]
    for name, type_ in (("a", small), ("b", large), ("c", large), ("d", small), ("e", large)):
        lines.append(
            f'%{name} = "plan.alloc"() {{bytes = {16 if type_ == small else 1 << 26} : i64, offset = 0 : i64}} : () -> {type_}'
        )
    launch, call = 'kernel = @small, label = "small"', 'callee = "aten.mm.default"'
    for ins, out, what in (("x", "a", launch), ("a", "b", call), ("b", "c", call), ("y", "d", launch), ("cd", "e", call)):
        types = [{"b": large, "c": large, "e": large}.get(v, small) for v in (*ins, out)]
        name = "launch" if what is launch else "call"
        operands = ", ".join(f"%{v}" for v in (*ins, out))
        lines.append(f'"plan.{name}"({operands}) {{{what}, n_out = 1 : i64}} : ({", ".join(types)}) -> ()')
    parsed = ir.Module.parse(module("\n".join(lines)), context())
    assert order(parsed, 64)[1] == bundles
