"""The stages of a compilation, from an FX graph to a callable: splits, the cache, dynamic sizes, targets."""
