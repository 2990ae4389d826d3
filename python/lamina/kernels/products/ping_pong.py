"""Device functions that printed ping-pong kernels call, in Gluon: Triton's language of warps, barriers and shared memory.

One warp loads blocks of the operands into a ring of stages. Two groups of four warps alternate over blocks of the result: while one
multiplies, the other runs the epilogue of its own product. Each stage has a barrier for "filled" and one for "emptied"; a wait is
for the parity of the number of completed phases. Two more barriers say which group may multiply, and each
buffer of what an epilogue reads has one for either group.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

# Triton 3.6 has only the second names, 3.9 the first
load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


@gluon.jit
def barriers(COUNT: gl.constexpr):
    """Makes COUNT barriers, each for one arrival."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(made.index(i), count=1)
    return made


@gluon.jit
def stage_of(step, STAGES: gl.constexpr):
    """Returns the stage of the step-th block, and the parity of its barrier then."""
    return step % STAGES, (step // STAGES) & 1


@gluon.jit
def following(stage, phase, STAGES: gl.constexpr):
    """Returns the next stage of the ring, and its parity."""
    last = stage == STAGES - 1
    return gl.where(last, 0, stage + 1), gl.where(last, phase ^ 1, phase)


@gluon.jit
def before(stage, STAGES: gl.constexpr):
    """Returns the stage before one. It is not kept: Triton does not carry a name that begins and ends a loop with another name's
    value."""
    return gl.where(stage == 0, STAGES - 1, stage - 1)


@gluon.jit
def halves(x):
    """Splits a block into the left and the right half of its columns, which stay in their registers."""
    rows: gl.constexpr = x.shape[0]
    columns: gl.constexpr = x.shape[1] // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16])
    left, right = x.reshape([rows, 2, columns]).permute(0, 2, 1).split()
    return gl.convert_layout(left, layout, assert_trivial=True), gl.convert_layout(right, layout, assert_trivial=True)


@gluon.jit
def sums(x, axis: gl.constexpr):
    """Sums along rows or columns and keeps that dimension."""
    return gl.expand_dims(gl.sum(x, axis), axis)


@gluon.jit
def store(blocks, place, shared, x):
    """Stores a block through shared memory, which the previous store has left by then."""
    tma.store_wait(0)
    shared.reshape(x.shape).store(x)
    fence_async_shared()
    _store(blocks, place, shared)


@gluon.jit
def fetch(blocks, place, shared, filled, BYTES: gl.constexpr):
    """Begins to load a block that an epilogue reads."""
    mbarrier.expect(filled, BYTES)
    load(blocks, place, filled, shared)


@gluon.jit
def fetched(shared, filled, parity, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Returns a block that `fetch` began to load, laid out as the product is."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLUMNS, 16])
    mbarrier.wait(filled, parity)
    return shared.reshape([ROWS, COLUMNS]).load(layout)
