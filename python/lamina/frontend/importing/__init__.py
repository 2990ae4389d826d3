"""Imports an FX graph of aten ops as linalg on tensors by torch-mlir; ops that it does not lower become calls of private
functions."""
