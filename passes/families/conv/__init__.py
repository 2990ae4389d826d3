"""Convolutions: channels-last layout, implicit GEMM, and direct convolution for depthwise and grouped ones."""
