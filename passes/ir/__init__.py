"""Utilities to read and build MLIR, shared by all passes.

Input: ops of linalg, tensor and arith, and of Lamina's dialects. Output: shapes, indexing maps, affine index expressions, scalar
expressions, strides seen through views, copies of ops, readable source locations. Nothing here is a pass.
"""
