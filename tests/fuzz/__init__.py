"""An attack that stays: bad inputs, altered bytes and kills, with the outcome that each of them must have."""
