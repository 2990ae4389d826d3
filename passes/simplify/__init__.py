"""Simplification passes on linalg on tensors: smaller IR at the same level.

Algebraic rules (`rules/`), rewrite patterns written as Python functions (`patterns/`, matched by `matching/`), constant folding
(`evaluate/`), CSE, DCE, demotion of f64, merging of views, and the conversion of external calls to `graph.extern` and
`graph.kernel`.
"""
