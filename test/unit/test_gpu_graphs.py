"""Tests programs recorded as CUDA graphs, with a driver that stands in for NVIDIA's: it runs the kernels of a graph, but no
library calls."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import programs as p
import pytest
import torch
from fake_gpu import FakeGpu, on_gpu

from lamina.core.program import Call, Constant
from lamina.runtime.recording.graph_status import Status
from lamina.runtime.recording.recordable import draws_first, why_not_recorded


def test_kernels_follow_arguments_and_results(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(128, 4), recorder=gpu.recorder())
    kept = []
    for i in range(8):
        x = torch.full((128,), float(i))
        kept.append((run(x)[0], x))
    assert gpu["graph_launches"] == 6 and len(gpu.launches()) == 2 * 4 and len(gpu.nodes()) == 4
    assert all((y == i + 4).all() for i, (y, _) in enumerate(kept))
    assert len({y.data_ptr() for y, _ in kept}) == 8 and gpu["copies"] == 0
    changes = gpu["changes"]
    kept_ones = [run(kept[0][1]) for _ in range(3)]
    assert gpu["changes"] - changes <= 2 * len(kept_ones)


def test_results_of_libraries_are_copied_out(gpu: FakeGpu) -> None:
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=gpu.recorder())
    found = [run(x.clone(), w) for _ in range(6)]
    assert gpu["graph_launches"] == 4 and gpu["copies"] == 4
    for y, z in found:
        torch.testing.assert_close(y, (x + 1) @ w)
        assert torch.equal(z, y + 1)
    assert len({y.data_ptr() for y, _ in found}) == 6


def test_a_moved_argument_of_a_library_drops_the_recording(gpu: FakeGpu) -> None:
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=gpu.recorder())
    for _ in range(4):
        run(x, w)
    assert gpu["graphs"] == 1 and gpu["graph_launches"] == 2
    other = w * 2
    torch.testing.assert_close(run(x, other)[0], (x + 1) @ other)
    assert gpu["graphs"] == 0
    for i in range(8):  # now it takes twice as many runs
        torch.testing.assert_close(run(x, other)[0], (x + 1) @ other)
        assert gpu["graphs"] == int(i >= 5), i


def test_arguments_of_libraries_that_move_at_every_call_are_copied(gpu: FakeGpu) -> None:
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=gpu.recorder())
    kept = [w.clone() for _ in range(10)]
    for i, given in enumerate(kept):
        launches = gpu["graph_launches"]
        torch.testing.assert_close(run(x, given)[0], (x + 1) @ w)
        assert gpu["graph_launches"] - launches == int(i >= 3)
    status = run.status()
    assert status is not None and (status.state, status.recorded) == ("recorded", 1)
    assert (status.copied_in, status.copied_in_bytes, status.copied_out, status.copied_out_bytes) == (1, 256, 1, 256)
    assert gpu["copies"] == 2 * gpu["graph_launches"] + 1  # while recording


@pytest.mark.parametrize("compiles", [True, False])
def test_copies_are_made_by_one_launch(gpu: FakeGpu, compiles: bool) -> None:
    """Or by separate copies, if the driver has no copy kernel."""
    program, (x, w) = p.product()
    mm = program.steps[1]
    assert isinstance(mm, Call)
    moved = (*program.buffers, *p.buffers(("input", 256), ("output", 256)))
    moved = (*moved[:-2], replace(moved[-2], index=2), replace(moved[-1], index=2))
    more = replace(mm, args=(p.ref(4, x), p.ref(5, w)), outs=(p.ref(6, x),))
    both = p.program([x, w, w], moved, [*program.steps, more], [*program.outputs, p.ref(6, x)])
    run = gpu.executable(both, recorder=gpu.recorder())
    if not compiles:
        gpu.fail("cuModuleGetFunction", 500, after=1)  # the program's own kernel comes first
    launches = gpu["copy_launches"]
    kept = [(w.clone(), w * 2) for _ in range(10)]
    for a, b in kept:
        for given, found in zip((a, b), run(x, a, b)[::2], strict=True):
            torch.testing.assert_close(found, (x + 1) @ given)
    replays = gpu["graph_launches"]
    assert replays == 7 and gpu["copies"] == 4 * replays + 2
    assert gpu["copy_launches"] - launches == (2 * replays if compiles else 0)


def test_what_calls_return_is_copied_out(gpu: FakeGpu) -> None:
    x, w = torch.randn(1, 2, 8, 4), torch.randn(2, 2, 1, 1)
    flat = torch.empty(64)
    out = torch.empty(1, 2, 8, 4)
    bufs = p.buffers(("input", 256), ("input", 16), ("owned", 256), ("arena", 256))
    args: tuple[Any, ...] = (p.ref(3, x), p.ref(1, w), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    convolution = Call("aten.convolution.default", "library", args, (), (), (p.ref(2, out),), "convolution")
    program = p.program([x, w], bufs, [p.inc(p.ref(0, flat), p.ref(3, flat)), convolution], [p.ref(2, out)])
    run = gpu.executable(program, recorder=gpu.recorder())
    found = [run(x, w)[0] for _ in range(6)]
    assert gpu["graph_launches"] == 4
    for y in found:
        torch.testing.assert_close(y, torch.nn.functional.conv2d(x + 1, w))
    assert len({y.data_ptr() for y in found}) == 6
    copies = gpu["copies"]
    lending = gpu.executable(replace(program, saved=(0,)), recorder=gpu.recorder())
    for _ in range(6):
        torch.testing.assert_close(lending(x, w)[0], found[0])
    assert gpu["graph_launches"] == 8 and gpu["copies"] == copies


def test_what_only_a_backward_pass_sees_is_lent(gpu: FakeGpu) -> None:
    """It is not copied, and the graph is not replayed while anyone holds it or a part of it."""
    program, (x, w) = p.product()
    run = gpu.executable(replace(program, saved=(0, 1)), recorder=gpu.recorder())
    places = set()
    for i in range(8):
        y, z = run(x, w)
        torch.testing.assert_close(y, (x + 1) @ w)
        assert torch.equal(z, y + 1)
        if i >= 2:
            places.add((y.data_ptr(), z.data_ptr()))
        del y, z
    assert gpu["graph_launches"] == 6 and gpu["copies"] == 0 and len(places) == 1
    status = run.status()
    assert status is not None and (status.state, status.copied_out) == ("recorded", 0)
    y, _ = run(x, w)
    part = y[1:]
    kept = part.clone()
    del y, _
    for i in range(3):
        other, _ = run(x - i, w)
        torch.testing.assert_close(other, (x - i + 1) @ w)
    assert gpu["graph_launches"] == 7 and torch.equal(part, kept)
    del part
    assert run(x, w)[0].data_ptr() in {place for place, _ in places} and gpu["graph_launches"] == 8
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):  # they may hand it to another stream
        assert run(x, w)[0].data_ptr() not in {place for place, _ in places} and gpu["graph_launches"] == 8
    gpu["capturing"] = 1  # by torch, whose graph would find the memory gone
    assert run(x, w)[0].data_ptr() not in {place for place, _ in places} and gpu["graph_launches"] == 8
    gpu["capturing"] = 0


def test_results_outlive_the_recording_that_lends_them(gpu: FakeGpu) -> None:
    program, (x, w) = p.product()
    run = gpu.executable(replace(program, saved=(0, 1)), recorder=gpu.recorder())
    for _ in range(4):
        y, z = run(x, w)
        wanted = y.clone(), z.clone()
        if _ < 3:
            del y, z
    other = w * 2  # an argument of a library that moves: the recording is dropped
    torch.testing.assert_close(run(x, other)[0], (x + 1) @ other)
    assert gpu["graphs"] == 0 and torch.equal(y, wanted[0]) and torch.equal(z, wanted[1])
    del run
    torch.empty(1 << 16).fill_(7)
    assert torch.equal(y, wanted[0]) and torch.equal(z, wanted[1])


def test_arguments_that_have_stopped_are_taken_where_they_lie(gpu: FakeGpu) -> None:
    """For example values that a forward pass returns to a backward pass, once the forward pass is recorded. If the addresses
    change again, the arguments are copied."""
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=gpu.recorder())
    kept = [w.clone() for _ in range(4)]
    for i in range(9):
        torch.testing.assert_close(run(x, kept[min(i, 2)])[0], (x + 1) @ w)
        assert gpu["graph_launches"] == max(0, i - 5), i
    status = run.status()
    assert status is not None and (status.recorded, status.copied_in) == (1, 0)
    for i in range(12):
        torch.testing.assert_close(run(x, kept[2 + (i < 11)])[0], (x + 1) @ w)
    status = run.status()
    assert status is not None and (status.recorded, status.copied_in) == (2, 1)


def test_constants_and_results_in_the_arena(gpu: FakeGpu) -> None:
    flat = torch.empty(64)
    bufs = p.buffers(("constant", 256), ("arena", 256), ("output", 256))
    steps = [p.inc(p.ref(0, flat), p.ref(1, flat)), p.inc(p.ref(1, flat), p.ref(2, flat))]
    constant = Constant("f32", (64,), torch.ones(64).numpy().tobytes())
    run = gpu.executable(p.program([], bufs, steps, [p.ref(1, flat), p.ref(2, flat)], [constant]), recorder=gpu.recorder())
    for i in range(8):
        gpu["stream"] = 0x1000 if i == 5 else 0
        a, b = run()
        assert (a == 2).all() and (b == 3).all()
        a.zero_()
    assert gpu["graph_launches"] == 5


def test_other_streams_and_captures_run_step_by_step(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 3), recorder=gpu.recorder())
    x = torch.zeros(64)
    for _ in range(4):
        run(x)
    assert gpu["graph_launches"] == 2
    gpu["stream"] = 0x1000
    assert run(x)[0].sum() == 192
    gpu["stream"], gpu["capturing"] = 0, 1
    assert run(x)[0].sum() == 192
    assert gpu["graph_launches"] == 2
    gpu["capturing"] = 0
    assert run(x)[0].sum() == 192 and gpu["graph_launches"] == 3


@pytest.mark.parametrize("function", ["cuGraphInstantiateWithFlags", "cuLaunchKernelEx"])
def test_a_recording_that_fails_is_given_up(gpu: FakeGpu, function: str) -> None:
    recorder = gpu.recorder()
    program, (x, w) = p.product()
    run = gpu.executable(program, recorder=recorder)
    run(x, w), run(x, w)
    gpu.fail(function, 1)
    for _ in range(4):
        torch.testing.assert_close(run(x, w)[0], (x + 1) @ w)
    ((why, begun),) = recorder.given_up
    assert "CUDA_ERROR_INVALID_VALUE" in why and begun == (function == "cuLaunchKernelEx")
    assert gpu["graph_launches"] == 0 and recorder.captures == 1


def test_a_graph_that_does_not_launch(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 3), recorder=gpu.recorder())
    for _ in range(4):
        run(torch.zeros(64))
    gpu.fail("cuGraphLaunch", 700)
    with pytest.raises(RuntimeError, match="the launch of test as a graph failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        run(torch.zeros(64))
    assert run(torch.zeros(64))[0].sum() == 192


@pytest.mark.parametrize(
    ("callee", "args", "why"),
    [
        ("aten.bernoulli.default", (), "draws random numbers"),
        ("aten.masked_select.default", (p.ref(1, torch.empty(64)),), "makes the host wait"),
        ("quantized.relu6.default", (), "may do in Python"),
        ("", (), "a single step"),
    ],
)
def test_what_is_never_recorded(gpu: FakeGpu, callee: str, args: Any, why: str) -> None:
    x = torch.randn(64)
    call = Call(callee, "fallback", (p.ref(1, x), *args), (), (), (p.ref(2, x),), "call")
    steps = [p.inc(p.ref(0, x), p.ref(1, x)), *([call] if callee else [])]
    bufs = p.buffers(("input", 256), ("output", 256), ("owned", 256))
    program = p.program([x], bufs, steps, [p.ref(1, x)])
    assert why in why_not_recorded(on_gpu(program), "cpu")
    if not callee:
        run = gpu.executable(program, recorder=gpu.recorder())
        for _ in range(5):
            assert torch.equal(run(x)[0], x + 1)
        assert gpu["graph_launches"] == 0 and run.status() == Status("off", "a single step gains nothing by it")


@pytest.mark.parametrize(("dropout", "why"), [(0.0, ""), (0.5, "draws random numbers")])
def test_attention_without_dropout_is_recorded(dropout: float, why: str) -> None:
    """Its gradients take the seeds of a dropout, but do not read them."""
    x, seed = torch.randn(1, 1, 8, 8), torch.tensor(0)
    bufs = p.buffers(("input", 256), ("input", 8), ("output", 256), ("owned", 256), ("owned", 256), ("owned", 256), ("arena", 256))
    tensors = [p.ref(6, x) for _ in range(6)]
    args = (*tensors, p.ref(1, seed), p.ref(1, seed), None, None, None, 8, 8, dropout, False)
    owned = tuple(p.ref(b, x) for b in (3, 4, 5))
    call = Call("aten._scaled_dot_product_cudnn_attention_backward.default", "library", args, (), (), owned, "attention")
    flat = torch.empty(64)
    program = p.program(
        [x, seed], bufs, [p.inc(p.ref(0, flat), p.ref(6, flat)), call, p.inc(p.ref(3, flat), p.ref(2, flat))], [p.ref(2, x)]
    )
    found = why_not_recorded(on_gpu(program), "cpu")
    assert why in found and bool(why) == bool(found)


def test_a_count_that_no_step_reads_stops_no_recording(gpu: FakeGpu) -> None:
    """Such as BatchNorm's num_batches_tracked in evaluation; an argument that only a call reads may be on the CPU."""
    program, (x, w) = p.product()
    count = torch.tensor(7)
    bufs = (*program.buffers, *p.buffers(("input", 8)))
    bufs = (*bufs[:-1], replace(bufs[-1], index=2))
    like = p.program([x, w, count], bufs, program.steps, program.outputs)
    assert not why_not_recorded(on_gpu(like), "cpu")
    run = gpu.executable(like, recorder=gpu.recorder())
    for _ in range(6):
        torch.testing.assert_close(run(x, w, count)[0], (x + 1) @ w)
    assert gpu["graph_launches"] == 4
    reads = Call("aten.digamma.default", "fallback", ((p.ref(len(bufs) - 1, count),),), (), (p.ref(2, x),), (), "reads")
    writes = replace(reads, args=(p.ref(2, x),), outs=(p.ref(len(bufs) - 1, count),))
    for step in (reads, writes):
        assert "argument 2 may lie on the CPU" in why_not_recorded(on_gpu(replace(like, steps=(*like.steps, step))), "cpu")


def test_calls_of_torch_that_only_read_and_write_memory_are_recorded(gpu: FakeGpu) -> None:
    x = torch.rand(64)
    bufs = p.buffers(("input", 256), ("output", 256), ("output", 256))
    call = Call("aten.digamma.default", "fallback", (p.ref(1, x),), (), (p.ref(2, x),), (), "digamma")
    run = gpu.executable(
        p.program([x], bufs, [p.inc(p.ref(0, x), p.ref(1, x)), call], [p.ref(1, x), p.ref(2, x)]), recorder=gpu.recorder()
    )
    for _ in range(6):
        y, z = run(x)
        assert torch.equal(y, x + 1) and torch.equal(z, torch.digamma(x + 1))
    assert gpu["graph_launches"] == 4


def test_random_numbers_are_drawn_ahead_of_every_replay(gpu: FakeGpu) -> None:
    """Seeds are drawn once per call from the same generator, recorded or not, so a seed repeats a run. A kernel reads one of
    them; another is a result."""
    x = torch.zeros(64)
    bufs = p.buffers(("input", 256), ("owned", 256), ("owned", 256), ("output", 256), ("arena", 256))
    steps = [
        p.inc(p.ref(0, x), p.ref(4, x)),
        Call("aten.rand.default", "library", ((64,),), (), (), (p.ref(1, x),), "rand"),
        p.inc(p.ref(1, x), p.ref(4, x)),
        Call("aten.rand.default", "library", ((64,),), (), (), (p.ref(2, x),), "rand"),
        p.inc(p.ref(4, x), p.ref(3, x)),
    ]
    program = p.program([x], bufs, steps, [p.ref(3, x), p.ref(2, x)])
    program = replace(program, buffers=tuple(replace(b, last=2) if i == 1 else b for i, b in enumerate(program.buffers)))
    run = gpu.executable(program, recorder=gpu.recorder())
    torch.manual_seed(3)
    found = [run(x) for _ in range(8)]
    assert gpu["graph_launches"] == 6
    torch.manual_seed(3)
    for y, kept in found:
        assert torch.equal(y, (torch.rand(64) + 1) + 1) and torch.equal(kept, torch.rand(64))


def test_draws_come_first() -> None:
    x = torch.zeros(64)
    draw = Call("aten.rand.default", "library", ((64,),), (), (), (p.ref(1, x),), "rand")
    bufs = tuple(replace(b, last=last) for b, last in zip(p.buffers(("input", 256), ("owned", 256)), (0, 1), strict=True))
    program = p.program([x], bufs, [p.inc(p.ref(0, x), p.ref(0, x)), draw], [])
    moved = draws_first(on_gpu(program))
    assert moved.steps[0] is draw and [b.last for b in moved.buffers] == [1, 0]


def test_a_recording_follows_to_another_stream(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 3), recorder=gpu.recorder())
    x = torch.zeros(64)
    for _ in range(4):
        run(x)
    assert gpu["graph_launches"] == 2
    gpu["stream"] = 0x1000
    for _ in range(15 + 6):
        run(x)
    assert gpu["graph_launches"] == 3 and gpu["graphs"] == 1


def test_threads_have_recordings_of_their_own(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(256, 4), recorder=gpu.recorder())

    def work(seed: int) -> bool:
        return all(bool((run(torch.full((256,), float(seed + i)))[0] == seed + i + 4).all()) for i in range(40))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(4)))
