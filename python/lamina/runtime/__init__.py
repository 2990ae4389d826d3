"""Runs compiled programs: the native runner, loading of objects, the on-disk cache."""
