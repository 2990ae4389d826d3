"""Fusion: linalg and tensor ops become `graph.group`s, one kernel each.

lamina-split-reductions gives reductions to few results parts that run in parallel; lamina-fuse forms the groups, and takes biases
out of library calls into the group behind them.
"""
