"""What threads of a warp, a CTA or a cluster do together: exchanges, reductions, scans, transposes through shared memory."""
