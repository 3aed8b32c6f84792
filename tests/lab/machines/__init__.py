"""Whole Debian systems: containers with systemd, emulated machines, a fleet reached by ssh."""
