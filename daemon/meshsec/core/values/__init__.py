"""Frozen values that everything else exchanges: addresses, routes, topology, timers."""
