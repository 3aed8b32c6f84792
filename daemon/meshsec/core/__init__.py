"""Pure decisions: no I/O, no clock, no randomness of its own. Inputs and outputs are frozen values."""
