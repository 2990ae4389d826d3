"""Reports on a compilation, as data and as tables: explain, the roofline, kernel times, unfused cost."""
