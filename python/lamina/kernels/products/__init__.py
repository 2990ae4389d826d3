"""Kernels of products that no block program is: written by hand, in Triton."""
