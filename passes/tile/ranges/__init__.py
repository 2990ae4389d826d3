"""lamina-size-ranges: copies kernels with symbolic sizes, so that each copy is for a range of a size."""
