"""Reading and building MLIR: what every pass shares.

In: ops of linalg, tensor and arith, and Lamina's dialects. Out: shapes, indexing maps, affine index expressions, scalar
expressions, strides seen through views, copies of ops, locations as people read them. Nothing here is a pass.
"""
