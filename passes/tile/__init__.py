"""lamina-tile: lowers kernel functions to tile programs, each computing one block of the results (`emit/` writes the body)."""
