"""Compiles tile programs by Triton: tile programs -> Triton text -> PTX."""
