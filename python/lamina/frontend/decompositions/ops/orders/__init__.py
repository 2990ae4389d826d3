"""Decompositions of sorts, selections by order and searches in sorted rows."""
