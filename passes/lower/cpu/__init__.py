"""Parts of lamina-tile-to-cpu: the kernel ABI, and memory ops and arithmetic that upstream lowers badly or not at all."""
