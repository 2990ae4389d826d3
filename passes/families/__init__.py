"""Kernel families: the ops that take a model's time, computed by a library or by Lamina's kernels.

In: @main at the graph level, with `graph.extern` calls and the groups around them. `select` chooses a kernel for each call
and the groups around it (`surroundings`), by cost model or by the tuned choice, and rewrites the calls that Lamina's kernels
compute. `custom` holds users' kernels.
"""
