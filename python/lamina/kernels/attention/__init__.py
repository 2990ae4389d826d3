"""Attention in Triton: `forward` for many queries, `split` and `join` for few against long caches."""
