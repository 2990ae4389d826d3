"""Kernels of users: their declaration (`declare`), and their launches in place of ops (`substitute`)."""
