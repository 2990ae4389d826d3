"""Attention masks: what they mean, and what kernels read in place of them."""
