"""Parts of opt-driver: command line, input, one run, expected diagnostics."""
