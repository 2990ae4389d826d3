"""Processors: tile programs -> LLVM -> an object file."""
