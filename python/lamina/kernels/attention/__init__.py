"""Attention kernels in Triton and Gluon.

forward           many queries: one program for M of them (flash attention 2)
specialized       the same for Hopper, with specialized warps (Gluon)
split, join       few queries against long caches: parts of the keys, which `join` combines
backward_queries  gradients of queries, and the sums over rows that `backward_keys` reads
backward_keys     gradients of keys and values
bounds, blocks    make what the others read in place of a mask: bounds of visible keys, lists of visible blocks

The kernels have these parameters in common; each kernel's docstring adds its own.

q, k, v, mask  operands: (batch, heads, queries or keys, elements), the mask (batch, heads, queries, keys)
out, sums      the result, and the natural log-sum-exps of the scores' rows (see step.keep_sums)
Q, K, V, MASK, OUT, SUMS  strides of these, in elements; SUMS: (): they are not stored
HEADS, GROUP   query heads; how many of them share keys and values
SIZE, VALUES   elements of a head: of queries and keys, of values; D and E: powers of two that hold them
SCALE          of the scores, positive
CAP            soft cap of the scaled scores, CAP * tanh(score / CAP); 0: none
CAUSAL         query i sees keys to i + OFFSET
WINDOW         query i sees keys from i + OFFSET - WINDOW + 1; 0: from the first
HOW            of the mask: "none" (it is not read), "bool" (true: seen), "bias" (added to the scaled scores); "zeros": the bias of
               a block is zero and is not read
BOUNDS         strides of `bounds`, i32: batch, head, and which: the first key that may be seen, and the end of them; () for none
ALIBI          slopes[head] * (key - query) is added to the scaled scores (slopes: f32)
BLOCKS         strides of `blocks`, lists of blocks of keys that the mask shows (see blocks.py): batch, head, block of queries; ()
               for none: all are computed
DROPS          dropout, with `seed` one i64: the bound on 16-bit numbers below which a weight is kept, the factor of those, and
               their share; () for none
TOGETHER       heads whose programs run side by side, as many as the second-level cache holds the keys and values of
DESCRIPTORS    keys and values are loaded by descriptors (TMA): elements contiguous, all else at multiples of 16 bytes
M, N           block sizes: queries, keys
"""
