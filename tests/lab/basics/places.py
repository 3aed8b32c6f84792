"""Where the tree is, and where what is built and left behind goes."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = REPOSITORY / "build"
