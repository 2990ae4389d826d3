"""What lamina-gpu-to-nvvm is made of."""
