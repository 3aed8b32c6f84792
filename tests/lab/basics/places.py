"""The repository's root, and the directories for build results and test artifacts."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
BUILD = REPOSITORY / "build"
