"""Numerics: surrogate costs, geometry of the Grassmannian, compilation and threads."""
