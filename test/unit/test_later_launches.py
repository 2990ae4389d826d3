"""Tests core/binding: launches of kernels that are built when a call first needs them, and which kernels a call needs."""

from dataclasses import replace

import pytest

from lamina.core.binding.bind import ProgramBinding
from lamina.core.binding.later import with_launches
from lamina.core.program import Buffer, Launch, Program, Ref, TensorSpec, When
from lamina.core.sizes import Size

N = Size.of("s0", 8)
X, Y, Z = (Ref(i, 0, "f32", (N,), (1,)) for i in range(3))


def launch(kernel: str, *args: Ref, grid: int = 0, when: tuple[When, ...] = ()) -> Launch:
    return Launch(kernel=kernel, args=args, n_out=1, grid=grid, bytes=0, flops=0, name="f", threads=32, when=when)


def program(*steps: Launch) -> Program:
    """x -> y in the arena -> z, by steps of which the last one writes z."""
    last = max(i for i, step in enumerate(steps) if Y in step.args)
    buffers = (Buffer("input", 0, 0, 4 * N, len(steps) - 1), Buffer("arena", 0, 0, 4 * N, last), Buffer("output", 0, 0, 4 * N, -1))
    inputs = (TensorSpec("f32", (N,), (1,), 16),)
    return Program(0, 0, 0, inputs, buffers, (), steps, (Z,), "main", "cuda")


SEVERAL = program(
    launch("f_to_64", X, Y, grid=1, when=(When(N, 64),)),
    launch("f", X, Y),
    launch("g_by_4", Y, Z, when=(When(N % 4, 0),)),
    launch("g", Y, Z),
)


def names(binding: ProgramBinding, n: int) -> list[str]:
    return [step.kernel for step in binding({"s0": n}).steps if isinstance(step, Launch)]


def test_a_call_takes_the_first_kernel_that_there_is() -> None:
    binding = ProgramBinding(SEVERAL, ("f_to_64", "g"))
    assert names(binding, 8) == ["f_to_64", "g"] and not binding.needed({"s0": 8}) and binding.missing({"s0": 8}) == ["g_by_4"]
    assert binding.needed({"s0": 65}) == ["f"] and binding.missing({"s0": 65}) == ["f"] and binding.general() == ["f"]
    with pytest.raises(LookupError):
        binding({"s0": 65})
    everything = ProgramBinding(SEVERAL)
    assert names(everything, 8) == ["f_to_64", "g_by_4"] and names(everything, 65) == ["f", "g"] and not everything.general()


def test_a_launch_becomes_those_of_what_its_kernel_became() -> None:
    """The launches keep the step's arguments, and buffers live until the last of them. Existing lists of sizes are shared."""
    sizes = Ref(1, 0, "i32", (2,), (1,))
    made = Program(
        0, 0, 0, (TensorSpec("f32", (N,), (1,), 16),), (Buffer("input", 0, 0, 4 * N, 1), Buffer("sizes", 0, 0, 8, -1)), (),
        tuple(
            replace(launch(kernel, X, X, grid=5, when=when), scratch=(sizes,))
            for kernel, when in (("f_early", (When(N, 99),)), ("f", ()))
        ),
        (), "main", "cuda", sizes=((N, 2 * N),),
    )  # fmt: skip
    once = with_launches(SEVERAL, {"f": made})
    assert [s.kernel for s in once.steps if isinstance(s, Launch)] == ["f_to_64", "f_early", "f", "g_by_4", "g"]
    assert [b.last for b in once.buffers[:3]] == [4, 4, -1] and once.sizes == ((N, 2 * N),)
    early = once.steps[1]
    assert isinstance(early, Launch) and early.args == (X, Y) and early.grid == 5 and early.scratch[0].buffer == 3
    twice = with_launches(once, {"g": replace(made, steps=made.steps[1:])})
    assert len(twice.sizes) == 1 and len(twice.buffers) == 4
