"""The parts of `lamina-tile-to-cpu`: the kernel ABI, memory ops and arithmetic that upstream lowers badly or not at all."""
