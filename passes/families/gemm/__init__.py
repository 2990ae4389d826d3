"""Matrix products: calls as linalg, with prologues, pairs (GLU), split-K, and sums over rows and columns of their results."""
