"""Attention kernels in Triton: `forward` for many queries, `split` and `join` for few queries against long caches."""
