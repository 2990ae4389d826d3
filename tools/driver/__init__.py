"""Parts of opt-driver: command line, model loading, one run, process supervision, expected diagnostics."""
