"""Lowers tile programs to code: `cpu/` for one CPU program, `simt/` for the threads of a GPU, `nvvm/` for NVIDIA's instructions.

Math functions become arithmetic on vectors (`expand_math`, `polynomials/`, `gpu_math/`); `route_to_triton` has Triton's compiler
compile some programs instead.
"""
