"""Stores answers on disk, and as text that is exported, merged and shipped."""
