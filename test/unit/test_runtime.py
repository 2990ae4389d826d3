"""Tests the native runner: launches, arguments, results, memory, threads."""

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import programs as p
import pytest
import torch

from lamina import _native
from lamina.core import program_json
from lamina.core.errors import CompileError
from lamina.core.program import Call, Constant
from lamina.core.sizes import Size


def test_a_chain_of_launches() -> None:
    run = p.executable(p.inc_chain(192, 5))
    x = torch.randn(192)
    (y,) = run(x)
    expected = x.clone()
    for _ in range(5):
        expected += 1
    assert torch.equal(y, expected)


def test_a_program_read_back_from_json() -> None:
    program = p.inc_chain(64, 3)
    run = p.executable(program_json.loads(program_json.dumps(program)))
    assert torch.equal(run(torch.zeros(64))[0], torch.full((64,), 3.0))


def test_boxed_arguments_are_released() -> None:
    run = p.executable(p.inc_chain(64, 1))
    x = torch.zeros(64)
    given = [x]
    assert run(given)[0][0] == 1 and given == []
    assert run._boxed_call


def test_results_are_memory_of_their_own() -> None:
    run = p.executable(p.inc_chain(64, 1))
    x = torch.zeros(64)
    first = run(x)[0]
    kept = first[3:5]
    del first
    others = [run(x)[0] for _ in range(4)]
    kept += 1
    assert all(o.sum() == 64 for o in others)
    assert len({o.data_ptr() for o in others} | {kept.data_ptr() - 12}) == 5
    assert all(o.data_ptr() % 64 == 0 for o in others)
    others[0].requires_grad_().sum().backward()


def test_memory_returns_with_the_last_alias() -> None:
    x = torch.zeros(1 << 18)
    flat = p.ref(0, x), p.ref(1, x)
    run = p.executable(p.program([x], p.buffers(("input", 1 << 20), ("output", 1 << 20)), [p.inc(*flat)], [flat[1]]))
    _native.trim_pool()
    y = run(x)[0]
    alias, where = y.view(512, -1)[7], y.data_ptr()
    del y
    assert _native.pool_stats()["idle"] == 0
    z = run(x)[0]
    assert z.data_ptr() != where
    del alias
    assert _native.pool_stats()["idle"] == 1 << 20
    assert run(x)[0].data_ptr() == where


def test_the_pool_is_bounded() -> None:
    n = 1 << 18
    run = p.executable(p.inc_chain(n, 1))
    x = torch.zeros(n)
    limit = _native.pool_stats()["limit"]
    try:
        _native.set_pool_limit(5 << 20)
        results = [run(x)[0] for _ in range(8)]
        results.clear()
        assert 4 << 20 <= _native.pool_stats()["idle"] <= 5 << 20
        _native.set_pool_limit(0)
        assert _native.pool_stats()["idle"] == 0
        assert run(x)[0].sum() == n
    finally:
        _native.set_pool_limit(limit)


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), ValueError, "test: takes 1 tensors, 0 given"),
        ((torch.zeros(64), torch.zeros(64)), ValueError, "takes 1 tensors, 2 given"),
        ((torch.zeros(64, dtype=torch.float64),), TypeError, "argument 0 must have dtype torch.float32; it has torch.float64"),
        ((torch.zeros(65),), ValueError, r"argument 0 must have shape \[64\]; it has \[65\]"),
        ((torch.zeros(1, 64),), ValueError, r"must have shape \[64\]; it has \[1, 64\]"),
        ((torch.zeros(128)[::2],), ValueError, r"of shape \[64\] must have strides \[1\]; it has \[2\]"),
        ((torch.zeros(64, device="meta"),), ValueError, "argument 0 must be on the cpu.*it is on meta"),
        ((torch.zeros(64).to_sparse(),), TypeError, "must be a dense tensor; its layout is torch.sparse_coo"),
        ((3.0,), TypeError, "must be a torch.Tensor; it is a float"),
        ((None,), TypeError, "must be a torch.Tensor; it is a NoneType"),
    ],
)
def test_wrong_arguments_are_named(args: tuple[object, ...], error: type[Exception], message: str) -> None:
    run = p.executable(p.inc_chain(64, 1))
    with pytest.raises(error, match=message):
        run(*args)
    assert run(torch.zeros(64))[0][0] == 1


def test_keywords_are_refused() -> None:
    with pytest.raises(TypeError, match="no keyword"):
        p.executable(p.inc_chain(64, 1))(x=torch.zeros(64))


def test_parameters_subclasses_offsets_and_unused_strides() -> None:
    run = p.executable(p.inc_chain(64, 1))

    class Mine(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    for x in (torch.nn.Parameter(torch.zeros(64)), torch.zeros(64).as_subclass(Mine), torch.zeros(100)[36:]):
        (y,) = run(x)
        assert type(y) is torch.Tensor and not y.requires_grad and y.sum() == 64
    like = torch.empty(1, 64)
    flat = torch.empty(64)
    bufs = p.buffers(("input", 256), ("output", 256))
    program = p.program([like], bufs, [p.inc(p.ref(0, flat), p.ref(1, flat))], [p.ref(1, like)])
    assert p.executable(program)(torch.zeros(1, 64).as_strided((1, 64), (7, 1)))[0].shape == (1, 64)


@pytest.mark.parametrize("dtype", list(p.NAMES))
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5, 7), (2, 1, 3, 1, 2, 1, 2, 1, 2, 3)])
def test_every_dtype_and_rank(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = (torch.randn(shape) * 50).to(dtype)
    source, out = p.ref(0, x), p.ref(1, x)
    launch = replace(p.inc(p.ref(0, torch.empty(64)), out), kernel="copy8", args=(source, out), grid=p.nbytes(x))
    run = p.executable(
        p.program([x], p.buffers(("input", p.nbytes(x)), ("output", p.nbytes(x))), [launch] if x.numel() else [], [out])
    )
    (y,) = run(x)
    assert y.dtype == dtype and y.shape == shape and y.stride() == x.stride()
    assert torch.equal(y, x)


def test_results_that_view_arguments_and_each_other() -> None:
    x = torch.randn(4, 16)
    bufs = p.buffers(("input", 256), ("output", 256))
    flat = torch.empty(64)
    outputs = [p.ref(0, x), p.ref(0, x.t()), p.ref(0, x[1], 64), p.ref(1, x), p.ref(1, x[2], 128)]
    run = p.executable(p.program([x], bufs, [p.inc(p.ref(0, flat), p.ref(1, flat))], outputs))
    same, turned, row, y, third = run(x)
    assert same is x and torch.equal(turned, x.t()) and torch.equal(row, x[1])
    version = x._version
    row.zero_()
    assert x[1].abs().sum() == 0 and x._version > version
    third.zero_()
    assert y[2].abs().sum() == 0
    leaf = torch.randn(4, 16, requires_grad=True)
    assert not run(leaf)[1].requires_grad


def test_constants_are_copied_out() -> None:
    data = torch.arange(6.0).reshape(2, 3)
    constant = Constant("f32", (2, 3), bytes(data.flatten().view(torch.uint8).tolist()))
    run = p.executable(p.program([], p.buffers(("constant", 24)), [], [p.ref(0, data), p.ref(0, data[1], 12)], [constant]))
    first, row = run()
    assert torch.equal(first, data) and torch.equal(row, data[1])
    first.zero_()
    assert torch.equal(run()[0], data)


def test_failed_checks_are_index_errors() -> None:
    like = torch.empty(64)
    launch = replace(p.inc(p.ref(0, like), p.ref(1, like)), kernel="bad")
    run = p.executable(p.program([like], p.buffers(("input", 256), ("output", 256)), [launch], [p.ref(1, like)]))
    for _ in range(2):
        with pytest.raises(IndexError, match="index out of range in self"):
            run(like)


def test_out_of_memory_says_what_was_planned() -> None:
    like = torch.empty(64)
    program = p.program(
        [like], p.buffers(("input", 256), ("output", 256)), [p.inc(p.ref(0, like), p.ref(1, like))], [p.ref(1, like)]
    )
    run = p.executable(replace(program, arena_bytes=1 << 60))
    used = _native.pool_stats()["used"]
    with pytest.raises(MemoryError, match=rf"test: out of memory: planned an arena of {1 << 60} bytes and results of 256 bytes"):
        run(like)
    assert _native.pool_stats()["used"] == used


def test_symbolic_sizes_are_refused() -> None:
    with pytest.raises(CompileError, match="sizes that depend on the call"):
        p.executable(replace(p.inc_chain(64, 1), sizes=((Size.of("batch"),),)))


def test_an_unknown_kernel_or_operator_is_a_compile_error() -> None:
    chain = p.inc_chain(64, 1)
    with pytest.raises(CompileError, match="gone"):
        p.executable(replace(chain, steps=(replace(chain.steps[0], kernel="gone"),)))
    step = Call("aten.no_such_op.default", "fallback", (), (), (), (), "x", ("model.py:3",))
    with pytest.raises(CompileError, match=r"model.py:3: no operator aten.no_such_op.default"):
        p.executable(replace(chain, steps=(step,)))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_launches_share_torchs_threads(threads: int) -> None:
    n = 1 << 20
    run, x = p.executable(p.inc_chain(n, 3)), torch.randn(n)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(run(x)[0], x + 1 + 1 + 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("n", [64, 1 << 18])
def test_several_threads_at_once(n: int) -> None:
    run = p.executable(p.inc_chain(n, 7))
    wrong = []

    def work(seed: int) -> None:
        x = torch.full((n,), float(seed))
        for _ in range(30):
            if not torch.equal(run(x)[0], x + 7):
                wrong.append(seed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


def test_kernels_carry_their_names_in_the_profiler() -> None:
    chain = p.inc_chain(64, 2)
    run = p.executable(replace(chain, steps=tuple(replace(s, name=f"inc_{i}") for i, s in enumerate(chain.steps))))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(torch.zeros(64))
    assert {"inc_0", "inc_1"} <= {event.name for event in profile.events()}


def test_a_runner_dies_with_its_memory() -> None:
    run = p.executable(p.inc_chain(1 << 18, 2))
    y = run(torch.zeros(1 << 18))[0]
    del run
    gc.collect()
    assert y.sum() == 2 * (1 << 18)


def test_an_uninitialized_runner_says_so() -> None:
    with pytest.raises(TypeError, match="not initialized"):
        _native.Runner.__new__(_native.Runner)()
    with pytest.raises(TypeError):
        _native.Runner(3)  # type: ignore[arg-type]
