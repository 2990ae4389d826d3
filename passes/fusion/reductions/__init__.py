"""lamina-split-reductions: splits reductions with few results into parts that run in parallel."""
