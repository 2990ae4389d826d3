"""What a compilation did, as data and as tables: explain, the roofline, times of kernels, IR of every level."""
