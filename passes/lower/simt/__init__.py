"""Parts of lamina-distribute: SIMT code of a block program, what one thread holds and does."""
