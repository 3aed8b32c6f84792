"""Faults of a machine: a busy processor, a full disk, no memory."""
