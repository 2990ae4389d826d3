"""Routines of vendors' libraries that compete with Lamina's kernels: a file for each, listed in `registry`.

(`families/attention/torch_kernels` describes torch's own attention kernels, which compute what no kernel of Lamina does.)
"""
