"""Kernel families: matrix products, convolutions and attention, by a library or by a kernel of Lamina's.

In: @main at the graph level, with `graph.extern` calls and the groups around them. `select` asks what each family offers for a call
and its surroundings (`surroundings`), by cost model or by tuning's answer, and rewrites the calls that Lamina's kernels compute.
`custom_epilogue` fuses what follows a user's kernel into it.
"""
