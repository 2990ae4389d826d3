"""Compiles calls of kernels that are given as sources, users' and Lamina's own: from an external call to a launch."""
