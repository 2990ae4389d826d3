"""Matrix products: library calls as linalg, with fused prologues and epilogues, GLU pairs, split-K, and row and column sums."""
