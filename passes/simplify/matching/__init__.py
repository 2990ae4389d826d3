"""Pattern matching on scalar expressions across generics, independent of order, casts and the form of constants."""
