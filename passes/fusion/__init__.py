"""Fusion: linalg and tensor ops become `graph.group`s, one kernel each.

lamina-split-reductions (`reductions/`) splits reductions with few results into parts that run in parallel. lamina-fuse forms the
groups. Before, it moves biases from library calls into the groups that read their results, and separates pooling from the
transposes after it.
"""
