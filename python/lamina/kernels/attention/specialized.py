"""Warp-specialized attention of many queries for Hopper (FlashAttention-3, Shah et al. 2024), in Triton's Gluon.

One warp loads keys and values by TMA into a ring of stages; each of GROUPS warp groups of four warps has 64 queries. A group
multiplies its queries by the next keys and its weights by values while it computes the next weights: tensor cores do not wait for
exponentials. The grid is persistent, at most one program for each multiprocessor; each takes one block of queries after the other,
and the next block's keys are loaded while the last one's results are written.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait

from .sizes import sizes

_LOG2_E = gl.constexpr(1.4426950408889634)
_LN_2 = gl.constexpr(0.6931471805599453)
_NONE = gl.constexpr(-float("inf"))
_async_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # the second name is that before triton 3.7


@gluon.jit
def specialized(
    q, k, v, bounds, out, sums, Q: gl.constexpr, K: gl.constexpr, V: gl.constexpr, OUT: gl.constexpr, SUMS: gl.constexpr,
    BATCH: gl.constexpr, HEADS: gl.constexpr, GROUP: gl.constexpr, QUERIES: gl.constexpr, KEYS: gl.constexpr,
    SIZE: gl.constexpr, VALUES: gl.constexpr, SCALE: gl.constexpr, CAUSAL: gl.constexpr, OFFSET: gl.constexpr,
    WINDOW: gl.constexpr, BOUNDS: gl.constexpr, TOGETHER: gl.constexpr, GROUPS: gl.constexpr, N: gl.constexpr, D: gl.constexpr,
    E: gl.constexpr, STAGES: gl.constexpr, PROGRAMS: gl.constexpr,
):  # fmt: skip
    """Computes attention of many queries, without masks that are read.

    GROUPS    warp groups that multiply, each for 64 queries: 2 or 3
    STAGES    blocks of N keys, and of values, that the ring holds
    PROGRAMS  size of the grid
    """
    P: gl.constexpr = sizes(
        OUT, SUMS, BATCH, HEADS, GROUP, QUERIES, KEYS, VALUES, SCALE, CAUSAL, OFFSET, WINDOW, BOUNDS, TOGETHER, GROUPS, N,
        D, E, STAGES, PROGRAMS,
    )  # fmt: skip
    M: gl.constexpr = P.M
    dtype: gl.constexpr = q.dtype.element_ty
    q_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, M, D], dtype)
    k_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, N, D], dtype)
    v_shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, 1, N, E], dtype)
    q_descriptor = tma.make_tensor_descriptor(q, [BATCH, HEADS, QUERIES, SIZE], [Q[0], Q[1], Q[2], 1], [1, 1, M, D], q_shared)
    k_descriptor = tma.make_tensor_descriptor(k, [BATCH, HEADS // GROUP, KEYS, SIZE], [K[0], K[1], K[2], 1], [1, 1, N, D], k_shared)
    v_descriptor = tma.make_tensor_descriptor(
        v, [BATCH, HEADS // GROUP, KEYS, VALUES], [V[0], V[1], V[2], 1], [1, 1, N, E], v_shared
    )
    queries = gl.allocate_shared_memory(dtype, [GROUPS, 1, 1, M, D], q_shared)
    keys = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, N, D], k_shared)
    values = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, N, E], v_shared)
    q_full, q_free = _barriers(GROUPS, 1), _barriers(GROUPS, 1)
    k_full, k_free = _barriers(STAGES, 1), _barriers(STAGES, GROUPS)
    v_full, v_free = _barriers(STAGES, 1), _barriers(STAGES, GROUPS)
    fence_async_shared()  # makes the barriers visible to TMA
    ring = (queries, keys, values, q_full, q_free, k_full, k_free, v_full, v_free)
    descriptors = (q_descriptor, k_descriptor, v_descriptor)
    if GROUPS == 2:
        gl.warp_specialize(
            [
                (_attend, (0, P, ring, bounds, out, sums)),
                (_attend, (1, P, ring, bounds, out, sums)),
                (_load, (P, descriptors, ring, bounds)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_attend, (0, P, ring, bounds, out, sums)),
                (_attend, (1, P, ring, bounds, out, sums)),
                (_attend, (2, P, ring, bounds, out, sums)),
                (_load, (P, descriptors, ring, bounds)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


@gluon.jit
def _barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """Makes COUNT barriers, each for ARRIVALS arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(made.index(i), count=ARRIVALS)
    return made


@gluon.jit
def _rounds(P: gl.constexpr):
    """Returns how many blocks of queries this program takes."""
    return (P.UNITS - gl.program_id(0) + P.PROGRAMS - 1) // P.PROGRAMS * P.PAIR


@gluon.jit
def _block(i, bounds, P: gl.constexpr):
    """Returns the i-th block of queries: batch, head, first query; the first key that may be seen and the end of them; the first
    block of keys, and how many there are, at least one."""
    unit = i // P.PAIR * P.PROGRAMS + gl.program_id(0)
    first_head = unit // (P.PLACES // P.PAIR * P.TOGETHER) * P.TOGETHER
    wide = gl.minimum(P.TOGETHER, P.BATCH * P.HEADS - first_head)
    inside = unit - first_head * (P.PLACES // P.PAIR)
    place = inside // wide
    if P.PAIR == 2:
        place = gl.where(i % 2 == 0, P.PLACES - 1 - place, place)
    query_start = place * P.ROWS
    batch, head = (first_head + inside % wide) // P.HEADS, (first_head + inside % wide) % P.HEADS
    first, stop = query_start * 0, query_start * 0 + P.KEYS
    if len(P.BOUNDS) > 0:
        bounds += batch * P.BOUNDS[0] + head * P.BOUNDS[1]
        first, stop = gl.maximum(gl.load(bounds), 0), gl.minimum(gl.load(bounds + P.BOUNDS[2]), P.KEYS)
    begin, end = first, stop
    if P.CAUSAL:
        end = gl.minimum(end, query_start + P.ROWS + P.OFFSET)
        end = gl.where(query_start < P.QUERIES, end, 0)
    if P.WINDOW > 0:
        begin = gl.maximum(begin, query_start + P.OFFSET - P.WINDOW + 1)
    begin = begin // P.N
    return batch, head, query_start, first, stop, begin, gl.maximum((end + P.N - 1) // P.N - begin, 1)


@gluon.jit
def _load(P: gl.constexpr, descriptors, ring, bounds):
    """Loads, in one warp. A tile's last block of keys comes first: with CAUSAL, that one hides some keys."""
    queries, keys, values, q_full, q_free, k_full, k_free, v_full, v_free = ring
    q_descriptor, k_descriptor, v_descriptor = descriptors
    done = gl.program_id(0) * 0
    groups: gl.constexpr = P.GROUPS
    bytes: gl.constexpr = 2  # of an element
    for i in range(_rounds(P)):
        batch, head, query_start, _, _, begin, count = _block(i, bounds, P)
        for group in gl.static_range(groups):
            mbarrier.wait(q_free.index(group), (i & 1) ^ 1)
            mbarrier.expect(q_full.index(group), P.M * P.D * bytes)
            _async_load(q_descriptor, [batch, head, query_start + group * P.M, 0], q_full.index(group), queries.index(group))
        for j in range(count):
            stage, free = (done + j) % P.STAGES, (((done + j) // P.STAGES) & 1) ^ 1
            key = (begin + count - 1 - j) * P.N
            mbarrier.wait(k_free.index(stage), free)
            mbarrier.expect(k_full.index(stage), P.N * P.D * bytes)
            _async_load(k_descriptor, [batch, head // P.GROUP, key, 0], k_full.index(stage), keys.index(stage))
            mbarrier.wait(v_free.index(stage), free)
            mbarrier.expect(v_full.index(stage), P.N * P.E * bytes)
            _async_load(v_descriptor, [batch, head // P.GROUP, key, 0], v_full.index(stage), values.index(stage))
        done += count


@gluon.jit
def _attend(GROUP: gl.constexpr, P: gl.constexpr, ring, bounds, out, sums):
    """Computes 64 queries of each tile with all blocks of keys, in four warps."""
    queries, keys, values, q_full, q_free, k_full, k_free, v_full, v_free = ring
    M: gl.constexpr = P.M
    N: gl.constexpr = P.N
    D: gl.constexpr = P.D
    E: gl.constexpr = P.E
    scored: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    summed: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, E, 16])
    weighing: gl.constexpr = gl.DotOperandLayout(0, summed, 2)
    dtype: gl.constexpr = queries.dtype
    q = queries.index(GROUP).reshape([M, D])
    zeros = gl.zeros([M, N], gl.float32, layout=scored)
    done = gl.program_id(0) * 0
    for i in range(_rounds(P)):
        batch, head, query_start, first, stop, begin, count = _block(i, bounds, P)
        query_start += GROUP * P.M
        acc = gl.zeros([M, E], gl.float32, layout=summed)
        mbarrier.wait(q_full.index(GROUP), i & 1)
        stage, phase = done % P.STAGES, (done // P.STAGES) & 1
        mbarrier.wait(k_full.index(stage), phase)
        scores = warpgroup_mma(q, keys.index(stage).reshape([N, D]).permute([1, 0]), zeros, use_acc=False, is_async=True)
        scores = warpgroup_mma_wait(0, [scores])
        mbarrier.arrive(k_free.index(stage), count=1)
        scores = _mask(scores, (begin + count - 1) * P.N, query_start, first, stop, P)
        row_max = gl.full([M], _NONE, gl.float32, layout=gl.SliceLayout(1, scored))
        weights, _, row_max, row_sum = _softmax_step(
            scores, row_max, gl.zeros([M], gl.float32, layout=gl.SliceLayout(1, scored)), P
        )
        weights = gl.convert_layout(weights.to(dtype), weighing)
        for j in range(1, count):
            previous, previous_phase = (done + j - 1) % P.STAGES, ((done + j - 1) // P.STAGES) & 1
            stage, phase = (done + j) % P.STAGES, ((done + j) // P.STAGES) & 1
            mbarrier.wait(k_full.index(stage), phase)
            scores = warpgroup_mma(q, keys.index(stage).reshape([N, D]).permute([1, 0]), zeros, use_acc=False, is_async=True)
            mbarrier.wait(v_full.index(previous), previous_phase)
            product = warpgroup_mma(weights, values.index(previous).reshape([N, E]), acc, is_async=True)
            scores = warpgroup_mma_wait(1, [scores])
            mbarrier.arrive(k_free.index(stage), count=1)
            scores = _mask(scores, (begin + count - 1 - j) * P.N, query_start, first, stop, P)
            new_weights, rescale, row_max, row_sum = _softmax_step(scores, row_max, row_sum, P)
            acc = warpgroup_mma_wait(0, [product])
            mbarrier.arrive(v_free.index(previous), count=1)
            acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, summed))[:, None]
            weights = gl.convert_layout(new_weights.to(dtype), weighing)
        mbarrier.arrive(q_free.index(GROUP), count=1)
        done += count
        stage, phase = (done - 1) % P.STAGES, ((done - 1) // P.STAGES) & 1
        mbarrier.wait(v_full.index(stage), phase)
        acc = warpgroup_mma(weights, values.index(stage).reshape([N, E]), acc, is_async=True)
        acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(v_free.index(stage), count=1)
        _store(acc, row_max, row_sum, out, sums, batch, head, query_start, P)


@gluon.jit
def _mask(scores, key_start, query_start, first, stop, P: gl.constexpr):
    """Sets scores of keys `key_start` to key_start + N to -inf where their position hides them.

    query_start  the first query
    """
    M: gl.constexpr = P.M
    N: gl.constexpr = P.N
    edge = (key_start + P.N > stop) | (key_start < first)
    if P.CAUSAL:
        edge |= key_start + P.N - 1 > query_start + P.OFFSET
    if P.WINDOW > 0:
        edge |= key_start <= query_start + P.M - 1 + P.OFFSET - P.WINDOW
    if edge:
        rows = query_start + gl.arange(0, M, layout=gl.SliceLayout(1, scores.type.layout))[:, None]
        keys = key_start + gl.arange(0, N, layout=gl.SliceLayout(0, scores.type.layout))[None, :]
        hidden = (keys >= stop) | (keys < first)
        if P.CAUSAL:
            hidden = hidden | (keys > rows + P.OFFSET)
        if P.WINDOW > 0:
            hidden = hidden | (keys <= rows + (P.OFFSET - P.WINDOW))
        scores = gl.where(hidden, _NONE, scores)
    return scores


@gluon.jit
def _softmax_step(scores, row_max, row_sum, P: gl.constexpr):
    """Does a step of online softmax, as step.py. Returns the exponentials relative to each row's largest score, the factor by which
    earlier ones shrink, that score times log2(e) and SCALE, and the sum."""
    factor: gl.constexpr = P.SCALE * _LOG2_E
    new_max = gl.maximum(row_max, gl.max(scores, 1) * factor)
    origin = gl.where(new_max == _NONE, 0.0, new_max)  # a row that has seen nothing yet
    weights = gl.exp2(scores * factor - origin[:, None])
    rescale = gl.exp2(row_max - origin)
    return weights, rescale, new_max, row_sum * rescale + gl.sum(weights, 1)


@gluon.jit
def _store(acc, row_max, row_sum, out, sums, batch, head, query_start, P: gl.constexpr):
    """Stores results, and the log-sum-exps as step.py's keep_sums does."""
    M: gl.constexpr = P.M
    E: gl.constexpr = P.E
    batch, head = batch.to(gl.int64), head.to(gl.int64)
    if len(P.SUMS) > 0:
        rows = query_start + gl.arange(0, M, layout=row_sum.type.layout)
        log = gl.where(row_max != _NONE, (row_max + gl.log2(gl.where(row_sum == 0.0, 1.0, row_sum))) * _LN_2, -_NONE)
        gl.store(sums + batch * P.SUMS[0] + head * P.SUMS[1] + rows * P.SUMS[2], log, mask=rows < P.QUERIES)
    layout: gl.constexpr = acc.type.layout
    row_sum = gl.convert_layout(gl.where(row_sum == 0.0, 1.0, row_sum), gl.SliceLayout(1, layout))  # rows that see nothing are zero
    rows = query_start + gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    e = gl.arange(0, E, layout=gl.SliceLayout(0, layout))[None, :]
    addresses = out + batch * P.OUT[0] + head * P.OUT[1] + rows.to(gl.int64) * P.OUT[2] + e * P.OUT[3]
    result = acc / row_sum[:, None]
    gl.store(addresses, result.to(out.dtype.element_ty), mask=(rows < P.QUERIES) & (e < P.VALUES))
