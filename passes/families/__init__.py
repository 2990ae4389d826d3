"""Kernel families: hot ops (matrix products, convolutions, attention), which a library or one of Lamina's kernels computes.

In: @main at the graph level, with `graph.extern` calls and the groups around them. `select` chooses a kernel for each call
and the groups around it (`surroundings`), by cost model or by the tuned choice, and rewrites the calls that Lamina's kernels
compute. `custom` holds users' kernels.
"""
