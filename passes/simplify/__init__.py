"""Passes that make a model smaller without changing its level: linalg on tensors in, linalg on tensors out.

Algebraic rules (`rules/`), rewrite patterns written as functions (`patterns/`, matched by `matching/`), constants (`evaluate/`),
common subexpressions, dead code, f64 that nobody asked for, views that undo each other, and calls that become `graph.extern`.
"""
