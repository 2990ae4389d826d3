"""The pattern library: pairs of Python functions of torch ops, with their traces in linalg (`.mlir` files).

`python -m lamina.passes.simplify.patterns.trace` traces the functions and writes the files; a test keeps the two in step.
"""
