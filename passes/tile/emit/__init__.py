"""Bodies of tile programs: elementwise code, loops over rows and columns, products, convolutions, direct convolution, planes."""
