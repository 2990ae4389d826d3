"""The parts of lamina-distribute: what one thread of a block program holds and does."""
