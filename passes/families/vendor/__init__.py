"""Vendors' routines that compete with Lamina's kernels for a problem's calls: a file for each, listed in `registry`."""
