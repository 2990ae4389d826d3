"""Decompositions of ops that draw random numbers."""
