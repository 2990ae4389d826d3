"""Binds programs with symbolic sizes to the sizes of one call (bind.py), and places their memory in the arena (arena.py)."""
