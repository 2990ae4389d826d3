"""Traces tensors to scalar expressions, decides which tensors are materialized, and groups those into kernels.

In: linalg on tensors. Out: for each result the scalar expression of one element (`trace`), the values that are materialized in
memory (`materialize`, with its reasons `gathered` and `mixed_orders`), and groups of these that one kernel computes (`grouping`, of
`nodes`).
"""
