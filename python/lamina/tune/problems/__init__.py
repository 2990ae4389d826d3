"""What is tuned (products and attention, row reductions, users' kernels), and the inputs that it is measured on."""
