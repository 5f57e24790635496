"""Events out of signals, and which subject each belongs to."""
