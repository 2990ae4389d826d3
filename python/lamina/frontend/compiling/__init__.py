"""The stages of a compilation, from an FX graph to a callable.

    per_size     one variant per concrete size, only for graphs that one program for all sizes cannot serve
    split        parts that one program can hold, and calls between them that run eagerly; parts calls them
    stages       one part: the cache (fingerprint, stored), normalization, import, lowering, loading
    lowering     from linalg to a program and code, with tuning's choices (tuning)
    sized        calls of a program with symbolic sizes; bindable evaluates it for the sizes of a call

While calls go on, a thread (worker) compiles better code for the sizes that they have: kernels for ranges of sizes (later),
programs for sizes of another scale (scales), and programs whose sizes are constants (specialized).
"""
