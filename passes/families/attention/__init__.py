"""The family of attention and its gradients: reads the ops' calls, analyzes masks, and emits calls of Lamina's or torch's kernels.

A mask is not materialized where the ops that compute it show what it means: causal, a sliding window, the keys that a sequence has
(padding), or a bias per head that is linear in the distance (ALiBi). Lamina's kernels then take flags, bounds of keys (computed by
a small kernel, once for all calls with the mask) and slopes, and skip blocks of hidden keys.

    %m = "graph.group"() ({ positions compared, %there among them, as numbers to add })
    %0:2 = "graph.extern"(%q, %k, %v, %m) {callee = "lamina.attention.default", ...}
 -> %1 = "graph.kernel"(%there) {callee = "lamina.attention_bounds", ...}
    %0 = "graph.kernel"(%q, %k, %v, %there, %1) {kwargs = {causal = true, window = 8, reads = "mask bounds", ...}, ...}

With `blocks=1` a separate kernel lists, once for all calls with a mask that has to be read, which blocks of keys each block of
queries sees; the others are skipped. Gradients have such lists, too: of blocks of keys for the first kernel, and for the second of
the blocks of queries that see each block of keys. Attention with dropout, and its gradients, are Lamina's kernels by default: these
draw the numbers where they need them, from the seed.

    %0:2 = "graph.extern"(%q, %k, %v) {callee = "lamina.attention.default", ...}
 -> %0 = "graph.extern"(%q, %k, %v) {callee = "aten._scaled_dot_product_flash_attention.default", ...}
"""
