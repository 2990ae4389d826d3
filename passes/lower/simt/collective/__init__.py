"""Collective operations of the threads of a warp, a CTA or a cluster: exchanges, reductions, scans, transposes through shared
memory."""
