"""lamina-tile: kernel functions become tile programs, one block of the result each (`emit/` writes the body)."""
