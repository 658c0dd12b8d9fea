"""Faster ways to the same numbers, for scoring without gradients (and one gradient written by hand). Private: each is
tested against the plain form."""
