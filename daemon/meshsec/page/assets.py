"""The files that a browser loads, kept in memory: five of them, compressed once."""

import gzip
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

TYPES = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "photo.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class AssetError(Exception):
    """A file of the page is missing."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content_type: str
    compressed: bytes
    etag: str


def load(directory: Path) -> dict[str, Asset]:
    """Return the files by the path at which a browser asks for them. Raises AssetError."""
    found = {}
    for name, content_type in TYPES.items():
        try:
            content = (directory / name).read_bytes()
        except OSError as error:
            raise AssetError(f"{directory / name}: {error.strerror}; `make build` makes it") from error
        digest = sha256(content).hexdigest()[:32]
        path = "/" if name == "index.html" else f"/{name}"
        found[path] = Asset(content_type, gzip.compress(content, 9, mtime=0), f'"{digest}"')
    return found
