"""``meshsec``, the command line."""

from meshsec.cli.app import main

__all__ = ["main"]
