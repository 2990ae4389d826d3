"""Decompositions of math functions of single elements, by kind."""
