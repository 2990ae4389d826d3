"""The library of patterns: pairs of Python functions of torch ops, and what they became in linalg (`.mlir` beside them).

`python -m lamina.passes.simplify.patterns.trace` traces the functions and writes the files again; a test holds the two together.
"""
