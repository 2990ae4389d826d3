"""What is tuned (hot ops, row reductions, users' kernels), and the inputs that it is measured on."""
