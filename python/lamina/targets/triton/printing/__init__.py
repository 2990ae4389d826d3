"""Prints tile programs as Triton text."""
