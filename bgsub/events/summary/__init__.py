"""A run as one page: what moved when and where, in pictures."""
