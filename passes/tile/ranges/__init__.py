"""lamina-size-ranges: makes several kernels of one, each for a range of a symbolic size."""
