"""Emitters of tile program bodies: elementwise code, loops over rows and columns, GEMM, implicit GEMM, direct convolution,
planes."""
