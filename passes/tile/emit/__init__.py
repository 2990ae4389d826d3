"""Emits the bodies of tile programs. `scopes` places values in nested loops, and `blocks` emits expressions as values of any rank,
with memory accesses (`access`, `tiles`, `gathers`), bounds, parts of concatenations and rows that start in the middle of an access.
On top of these: `dot` (GEMM and implicit GEMM), `direct_convolution`, `planes`, and the loops of passes/tile.
"""
