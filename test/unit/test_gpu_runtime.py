"""Tests the native runner for GPUs with a driver that stands in for NVIDIA's: tensors are on the CPU, and kernels run there."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_gpu
import programs as p
import pytest
import torch
from fake_gpu import Cubin, FakeGpu, on_gpu
from programs import T

from lamina import _native
from lamina.core import program_json
from lamina.core.program import Buffer, Call, Constant, Launch
from lamina.runtime import cubins
from lamina.runtime.executable import Executable
from lamina.runtime.gpu import Driver
from lamina.runtime.library import library_call


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeGpu:
    return fake_gpu.build(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def gpu(library: FakeGpu) -> Iterator[FakeGpu]:
    library.launches()
    library.attributes()
    for name in ("loads", "relaxed_loads", "synchronizations", "capturing", "stream"):
        library[name] = 0
    yield library
    library.fail("", 0)
    assert library["depth"] == 0, "a context was left current"


def test_a_chain_of_launches(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(192, 3))
    x = torch.randn(192)
    (y,) = run(x)
    assert torch.equal(y, ((x + 1) + 1) + 1)
    first, second, third = gpu.launches()
    assert (first.kernel, first.grid, first.threads, first.shared, first.cluster) == ("inc", 3, 64, 0, 1)
    assert first.arguments[0] == x.data_ptr() and third.arguments[1] == y.data_ptr()
    assert first.arguments[1] == second.arguments[0] and second.arguments[1] == third.arguments[0]
    assert (second.arguments[0] - second.arguments[1]) % 64 == 0


def test_a_program_read_back_from_json(gpu: FakeGpu) -> None:
    program = on_gpu(p.inc_chain(64, 2))
    assert program_json.loads(program_json.dumps(program)) == program
    assert gpu.executable(program_json.loads(program_json.dumps(program)))(torch.zeros(64))[0].sum() == 128


def test_clusters_and_shared_memory(gpu: FakeGpu) -> None:
    program = p.inc_chain(1024, 2)
    first, second = (
        replace(s, grid=16, threads=64, cluster=c, shared=b) for s, c, b in zip(program.steps, (16, 4), (8, 99_000), strict=True)
    )
    run = gpu.executable(replace(program, steps=(first, second)))
    assert run(torch.zeros(1024))[0].sum() == 2048
    assert [(x.cluster, x.shared) for x in gpu.launches()] == [(16, 8), (4, 99_000)]
    assert gpu.attributes() == [(8, 99_000), (14, 1)]


def test_grids_of_three_dimensions(gpu: FakeGpu) -> None:
    program = p.inc_chain(192, 2)
    steps = tuple(replace(s, grid_yz=yz) for s, yz in zip(program.steps, ((1, 1), (5, 7)), strict=True))
    run = gpu.executable(program_json.loads(program_json.dumps(replace(program, steps=steps))))
    assert run(torch.zeros(192))[0].sum() == 384
    assert [(x.grid, x.grid_yz) for x in gpu.launches()] == [(3, (1, 1)), (3, (5, 7))]


def test_blocks_of_three_dimensions(gpu: FakeGpu) -> None:
    program = p.inc_chain(192, 2)
    steps = tuple(replace(s, threads_yz=yz) for s, yz in zip(program.steps, ((1, 1), (4, 2)), strict=True))
    run = gpu.executable(program_json.loads(program_json.dumps(replace(program, steps=steps))))
    assert run(torch.zeros(192))[0].sum() == 384
    assert [(x.threads, x.threads_yz) for x in gpu.launches()] == [(64, (1, 1)), (64, (4, 2))]


def test_kernels_that_wait_by_themselves_start_early(gpu: FakeGpu) -> None:
    program = p.inc_chain(192, 3)
    kinds = ((False, 1), (True, 1), (True, 3))
    steps = tuple(replace(s, threads=64, dependent=d, cluster=c) for s, (d, c) in zip(program.steps, kinds, strict=True))
    run = gpu.executable(program_json.loads(program_json.dumps(replace(program, steps=steps))))
    assert run(torch.zeros(192))[0].sum() == 576
    assert tuple((x.dependent, x.cluster) for x in gpu.launches()) == kinds


def test_code_is_loaded_once_and_at_the_first_call(gpu: FakeGpu) -> None:
    runs = [gpu.executable(p.inc_chain(64, n), b"inc, once\0") for n in (1, 2)]
    assert gpu["loads"] == 0
    for run in (*runs, *runs):
        run(torch.zeros(64))
    assert gpu["loads"] == 1
    gpu.executable(p.inc_chain(64, 1), b"inc, ahead\0").load(0)
    assert gpu["loads"] == gpu["relaxed_loads"] == 2
    with pytest.raises(ValueError, match="not negative"):
        runs[0].load(-1)


def test_kernels_are_found_in_any_of_several_cubins(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 3), cubins.join([b"other, of several\0", b"inc, of several\0"]))
    assert run(torch.zeros(64))[0].sum() == 192 and gpu["loads"] == 2


def test_the_stream_is_torchs_current_one_at_every_call(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 1))
    for stream in (0x1000, 0x2000, 0):
        gpu["stream"] = stream
        run(torch.zeros(64))
    assert [x.stream for x in gpu.launches()] == [0x1000, 0x2000, None]


def test_a_launch_of_nothing(gpu: FakeGpu) -> None:
    like = torch.empty(0)
    launch = replace(p.inc(p.ref(0, torch.empty(64)), p.ref(1, like)), grid=0)
    run = gpu.executable(p.program([like], p.buffers(("input", 0), ("output", 0)), [launch], [p.ref(1, like)]))
    assert run(like)[0].shape == (0,) and not gpu.launches()


def test_kernels_get_memory_aligned_to_16_bytes(gpu: FakeGpu) -> None:
    """Arguments and results of calls are copied if they are not aligned."""
    x = torch.randn(65)
    flat = x[1:]
    bufs = p.buffers(("input", 256), ("output", 256))
    run = gpu.executable(p.program([flat], bufs, [p.inc(p.ref(0, flat), p.ref(1, flat))], [p.ref(1, flat), p.ref(0, flat)]))
    for given in (flat, flat.clone(), flat):
        y, same = run(given)
        assert torch.equal(y, given + 1) and same is given
    first, second, third = (launch.arguments[0] for launch in gpu.launches())
    assert first != flat.data_ptr() and all(pointer % 16 == 0 for pointer in (first, second, third))
    bufs = p.buffers(("input", 260), ("owned", 256), ("output", 256))
    call = Call("aten.slice.Tensor", "fallback", (p.ref(0, x), 0, 1), (), (), (p.ref(1, flat),), "slice")
    run = gpu.executable(p.program([x], bufs, [call, p.inc(p.ref(1, flat), p.ref(2, flat))], [p.ref(2, flat)]))
    assert torch.equal(run(x)[0], flat + 1) and gpu.launches()[0].arguments[0] % 16 == 0


def test_what_kernels_take_as_it_lies_is_not_copied(gpu: FakeGpu) -> None:
    """An argument states the alignment of its memory."""
    flat = torch.randn(70)[1:65]
    bufs = p.buffers(("input", 256), ("output", 256))
    program = p.program([flat], bufs, [p.inc(p.ref(0, flat), p.ref(1, flat))], [p.ref(1, flat)])
    run = gpu.executable(replace(program, inputs=(replace(program.inputs[0], align=4),)))
    for given in (flat, flat.clone()):
        assert torch.equal(run(given)[0], given + 1)
    assert next(launch.arguments[0] for launch in gpu.launches()) == flat.data_ptr()


def test_constants_and_results_of_every_kind(gpu: FakeGpu) -> None:
    """An argument, a view of it, a result and views of it, a constant, and two dtypes in one buffer."""
    x = torch.randn(4, 16)
    data = torch.randn(64)
    bufs = (*p.buffers(("input", 256), ("output", 256), ("constant", 256), ("output", 256), ("arena", 256)),)
    flat, number = torch.empty(64), torch.empty(64, dtype=torch.int32)
    steps = [p.inc(p.ref(2, flat), p.ref(1, flat)), p.inc(p.ref(0, flat), p.ref(3, flat)), p.inc(p.ref(0, flat), p.ref(4, flat))]
    outputs = [
        p.ref(0, x), p.ref(0, x.t()), p.ref(1, x), p.ref(1, x[2], 128), p.ref(2, flat), p.ref(3, number), p.ref(3, x), p.ref(4, x.t()),
    ]  # fmt: skip
    constant = Constant("f32", (64,), data.numpy().tobytes())
    run = gpu.executable(p.program([x], bufs, steps, outputs, [constant]))
    for _ in range(2):
        same, view, y, row, held, bits, z, arena = run(x)
        assert same is x and torch.equal(view, x.t())
        assert torch.equal(y.flatten(), data + 1) and torch.equal(row, y[2])
        assert row.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        assert torch.equal(held, data) and torch.equal(z, x + 1) and torch.equal(bits.view(torch.float32), z.flatten())
        assert torch.equal(arena, (x + 1).t()) and arena.stride() == (1, 16)
        held.zero_()
        y.requires_grad_().sum().backward()


def test_library_calls_and_fallbacks(gpu: FakeGpu) -> None:
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    mm = p.call_program("aten.mm.default", [a, b], [T(0), T(1)], [torch.empty(5, 3)], reason="library", in_place=True)
    torch.testing.assert_close(gpu.executable(mm)(a, b)[0], a @ b)
    x = torch.randn(4, 9)
    values, places = torch.sort(x, 1, descending=True)
    program = p.call_program("aten.sort.default", [x], [T(0), 1, True], [values, places], reason="fallback", in_place=False)
    assert all(torch.equal(g, w) for g, w in zip(gpu.executable(program)(x), (values, places), strict=True))
    for callee, args, want in [
        ("aten.cumprod.default", [T(0), 1], x.cumprod(1)),
        ("aten.roll.default", [T(0), [2], [1]], x.roll(2, 1)),
    ]:
        program = p.call_program(callee, [x], args, [torch.empty(9, 4).t()], reason="fallback", in_place=True)
        (y,) = gpu.executable(program)(x)
        assert torch.equal(y, want) and y.stride() == (1, 4)
    columns = p.call_program("aten.neg.default", [x], [T(0)], [torch.empty(9, 4).t()], reason="fallback", in_place=False)
    (y,) = gpu.executable(columns)(x)
    assert torch.equal(y, -x) and y.stride() == (1, 4)


@pytest.mark.parametrize(
    ("callee", "args", "results", "want"),
    [
        ("flash", (0.0, True), 9, {"routine": "flash", "flag": True, "log_sum_exp": False}),
        ("flash", (0.1, True), 9, None),  # dropout: through the dispatcher
        ("flash", (0.0, False, True), 9, None),
        ("efficient", (None, True, 0.0, True), 4, {"routine": "efficient", "flag": True, "log_sum_exp": True}),
        ("efficient", (None, False), 4, {"routine": "efficient", "flag": False, "log_sum_exp": False}),
        ("cudnn", (None, True, 0.0, True, False), 9, {"routine": "cudnn", "flag": True, "log_sum_exp": True}),
        ("cudnn", (None, True, 0.0, True), 4, None),
    ],
)
def test_attention_of_gpus_needs_no_python(
    callee: str, args: Any, results: int, want: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "has_routine", lambda name, device: device == "cuda")
    q = p.ref(0, torch.empty(2, 4, 8, 8))
    name = f"aten._scaled_dot_product_{callee}_attention.default"
    found = library_call(Call(name, "library", (q, q, q, *args), (("scale", 0.5),), (), (None,) * results, callee), "cuda")
    assert (found is None) == (want is None)
    if found is not None and want is not None:
        assert found["tensors"] == (q, q, q, None) and found["scale"] == 0.5 and want.items() <= found.items()


def test_small_integers_that_only_calls_take_may_lie_anywhere(gpu: FakeGpu) -> None:
    """Such as attention's seeds, which torch keeps on the CPU though the graph says that they are on the GPU."""
    x, seed = torch.randn(8), torch.tensor(3)
    program = p.call_program("aten.add.Tensor", [x, seed], [T(0), T(1)], [x], reason="fallback", in_place=False)
    assert torch.equal(gpu.executable(program)(x, seed)[0], x + 3)
    passed = p.call_program("aten.neg.default", [seed], [T(0)], [seed], reason="fallback", in_place=False)
    assert gpu.executable(passed)(seed)[0] == -3


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: torch.zeros(65), ValueError, r"argument 0 must have shape \[64\]; it has \[65\]"),
        (lambda: torch.zeros(64).double(), TypeError, "argument 0 must have dtype torch.float32"),
        (lambda: torch.zeros(64, device="meta"), ValueError, "it is on meta"),
    ],
)
def test_wrong_arguments_are_named(gpu: FakeGpu, given: Any, error: type[Exception], message: str) -> None:
    run = gpu.executable(p.inc_chain(64, 1))
    with pytest.raises(error, match=message):
        run(given())
    assert run(torch.zeros(64))[0].sum() == 64


def test_tensors_of_the_cpu_are_no_tensors_of_a_gpu(gpu: FakeGpu) -> None:
    run = Executable(on_gpu(p.inc_chain(64, 1)), Cubin(b"inc\0", ("inc",)), replace(gpu.driver, tensors="cuda"))
    with pytest.raises(ValueError, match="argument 0 must be on the cuda, the device this was compiled for; it is on cpu"):
        run(torch.zeros(64))


class TestFailures:
    def test_no_driver(self) -> None:
        with pytest.raises(RuntimeError, match="needs NVIDIA's driver, which was not found: .*libnothing.so"):
            Executable(on_gpu(p.inc_chain(64, 1)), Cubin(b"inc\0", ("inc",)), Driver("libnothing.so"))

    def test_an_old_driver(self, tmp_path: Path) -> None:
        old = fake_gpu.build(tmp_path)
        old["version"] = 11040
        with pytest.raises(RuntimeError, match="driver is for CUDA 11.4; Lamina needs one for CUDA 11.8 or newer"):
            old.executable(p.inc_chain(64, 1))
        old["version"] = 12000
        old.fail("cuInit", 100)
        with pytest.raises(RuntimeError, match="NVIDIA's driver does not start: CUDA error 100"):
            old.executable(p.inc_chain(64, 1))
        assert old.executable(p.inc_chain(64, 1))(torch.zeros(64))[0].sum() == 64

    @pytest.mark.parametrize(
        ("target", "capability", "runs"),
        [
            ("nvvm:sm_90a", (9, 0), True), ("nvvm:sm_90a", (10, 0), False), ("nvvm:sm_80", (8, 6), True), ("nvvm:sm_86", (8, 0), False),
            ("nvvm:sm_80", (9, 0), False), ("nvvm:sm_100a", (10, 3), False), ("nvvm:sm_100f", (10, 3), True),
        ],
    )  # fmt: skip
    def test_another_gpu(self, gpu: FakeGpu, target: str, capability: tuple[int, int], runs: bool) -> None:
        run = Executable(on_gpu(p.inc_chain(64, 1)), Cubin(b"inc\0", ("inc",), target), gpu.driver)
        gpu["major"], gpu["minor"] = capability
        try:
            if runs:
                assert run(torch.zeros(64))[0].sum() == 64
                return
            with pytest.raises(
                RuntimeError, match=rf"for {target}, which GPU 0 \(Fake 0, sm_{capability[0]}{capability[1]}, .*compile it"
            ):
                run(torch.zeros(64))
        finally:
            gpu["major"], gpu["minor"] = 9, 0

    def test_code_that_does_not_load(self, gpu: FakeGpu) -> None:
        run = gpu.executable(p.inc_chain(64, 1), b"inc, refused\0")
        gpu.fail("cuModuleLoadData", 209)
        with pytest.raises(
            RuntimeError, match=r"GPU 0 \(Fake 0, sm_90, driver for CUDA 13.0\) does not load.*CUDA_ERROR_NO_BINARY_FOR_GPU"
        ):
            run(torch.zeros(64))
        assert run(torch.zeros(64))[0].sum() == 64
        absent = gpu.executable(p.inc_chain(64, 1), b"other\0")
        with pytest.raises(RuntimeError, match="the code has no kernel inc"):
            absent(torch.zeros(64))

    def test_too_much_shared_memory(self, gpu: FakeGpu) -> None:
        program = p.inc_chain(64, 1)
        run = gpu.executable(replace(program, steps=(replace(program.steps[0], threads=64, shared=300_000),)))
        gpu.fail("cuFuncSetAttribute", 1)
        with pytest.raises(
            RuntimeError, match="kernel inc needs 300000 bytes of shared memory of 232448: CUDA_ERROR_INVALID_VALUE"
        ):
            run(torch.zeros(64))

    def test_a_launch_that_fails_is_named(self, gpu: FakeGpu) -> None:
        program = p.inc_chain(64, 3)
        steps = [replace(s, name=f"step {i}") for i, s in enumerate(program.steps)]
        run = gpu.executable(replace(program, steps=tuple(steps)))
        gpu.fail("cuLaunchKernelEx", 700, after=1)
        with pytest.raises(
            RuntimeError, match=r"launch of step 1 \(kernel inc, 1 blocks of 64 threads\).*ILLEGAL_ADDRESS.*LAMINA_SYNC=1"
        ):
            run(torch.zeros(64))
        assert run(torch.zeros(64))[0].sum() == 192

    def test_step_by_step(self, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LAMINA_SYNC", "1")
        program = p.inc_chain(64, 3)
        lines = (("model.py:7",), (), ())
        steps = tuple(replace(s, name=f"step {i}", where=lines[i]) for i, s in enumerate(program.steps))
        run = gpu.executable(replace(program, steps=steps))
        run(torch.zeros(64))
        assert gpu["synchronizations"] == 3
        gpu.fail("cuStreamSynchronize", 700, after=1)
        with pytest.raises(RuntimeError, match="after step 1: CUDA_ERROR_ILLEGAL_ADDRESS"):
            run(torch.zeros(64))
        gpu.fail("cuStreamSynchronize", 710)
        with pytest.raises(IndexError, match=r"after step 0 \(model.py:7\): a check of the kernel failed"):
            run(torch.zeros(64))
        gpu["capturing"], gpu["synchronizations"] = 1, 0
        run(torch.zeros(64))
        assert gpu["synchronizations"] == 0

    def test_out_of_memory_is_torchs_error_with_the_plans_sizes(
        self, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        program = p.inc_chain(64, 2)
        run = gpu.executable(replace(program, arena_bytes=1 << 60, buffers=tuple(map(_huge, program.buffers))))

        def full(*_: Any, **__: Any) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(torch, "empty_strided", full)
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory") as caught:
                run(torch.zeros(64))
            assert caught.value.__notes__ == [f"test: planned an arena of {1 << 60} bytes and results of 256 bytes"]
        capfd.readouterr()  # the shim prints what it caught


def _huge(buffer: Buffer) -> Buffer:
    return replace(buffer, bytes=1 << 59) if buffer.kind == "arena" else buffer


def test_several_threads(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(256, 4))

    def work(seed: int) -> bool:
        return all(bool((run(torch.full((256,), float(seed + i)))[0] == seed + i + 4).all()) for i in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert all(isinstance(s, Launch) for s in run.program.steps)


def test_boxed_arguments_and_memory_are_released(gpu: FakeGpu) -> None:
    run = gpu.executable(p.inc_chain(64, 1))
    given = [torch.zeros(64)]
    (y,) = run(given)
    assert given == [] and y.sum() == 64 and y._is_view() is False
    kept = y[3:5]
    del y
    for _ in range(4):
        run(torch.zeros(64))
    assert kept.sum() == 2
