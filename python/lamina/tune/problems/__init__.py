"""What is tuned: products and attention, programs that reduce rows, users' kernels; and the inputs that they are measured on."""
