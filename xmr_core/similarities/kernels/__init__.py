"""Faster ways to the same numbers, for scoring without gradients, and gradients written by hand. Private: each is
tested against the plain form."""
