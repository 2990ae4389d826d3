"""Hand-written matrix product kernels in Triton that cannot be expressed as a tile program."""
