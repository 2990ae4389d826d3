"""Tuning problems (hot ops, row reductions, users' kernels), and the inputs that they are measured on."""
