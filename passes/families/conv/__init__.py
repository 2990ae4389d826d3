"""Convolutions: the layout of their images, as products (implicit GEMM), and depthwise and grouped ones as direct convolution."""
