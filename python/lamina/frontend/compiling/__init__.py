"""The stages of a compilation, from an FX graph to something to call: splits, the cache, sizes that change, destinations."""
