"""Photos of what a terminal shows: the QR codes that `meshsec` draws, and files that only claim to be photos."""

import struct
import zlib
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import segno
from PIL import Image, ImageFilter, ImageOps

_HALVES = {"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}
"""Upper and lower half of a character cell: 1 is the terminal's colour of text."""
_ORIENTATION = 0x0112
_ON_ITS_SIDE = 6
"""EXIF 2.32, section 4.6.5.1.6: a phone that is held upright saves the photo on its side, and says so."""
_MODULE = 9
"""Pixels of a module."""
_SIZE = (1200, 1600)
Bright = Sequence[Sequence[int]]


def drawn(text: str) -> list[list[int]]:
    """Return the modules of the QR code that a command has drawn among other text; 1 is bright."""
    lines = [line for line in text.splitlines() if line and set(line) <= _HALVES.keys() and len(line) > 20]
    return [[_HALVES[character][half] for character in line] for line in lines for half in (0, 1)]


def of_text(text: str) -> list[list[int]]:
    """Return the modules of any text, drawn as the command line draws."""
    out = StringIO()
    segno.make_qr(text, error="m").terminal(out=out, compact=True)
    return drawn(out.getvalue())


def photo(path: Path, modules: Bright, *, dark_text: bool = False) -> str:
    """Save a phone's photo of a screen with a code on it, and return its path.

    The phone is held upright and neither quite straight nor still. ``dark_text``: the terminal's colours are exchanged.
    """
    code = Image.new("L", (len(modules[0]), len(modules)))
    code.putdata([255 if one else 30 for row in modules for one in row])
    code = code.resize((_MODULE * code.width, _MODULE * code.height), Image.Resampling.NEAREST)
    screen = Image.new("L", _SIZE, 30)
    screen.paste(code, ((_SIZE[0] - code.width) // 2, (_SIZE[1] - code.height) // 2))
    if dark_text:
        screen = ImageOps.invert(screen)
    taken = screen.rotate(7, Image.Resampling.BICUBIC, fillcolor=90).filter(ImageFilter.GaussianBlur(1.5))
    exif = Image.Exif()
    exif[_ORIENTATION] = _ON_ITS_SIDE
    taken.transpose(Image.Transpose.ROTATE_90).convert("RGB").save(path, "JPEG", quality=80, exif=exif)
    return str(path)


def without_code(path: Path) -> str:
    """Save a photo of nothing."""
    Image.new("L", (640, 480), 128).save(path, "JPEG")
    return str(path)


def bomb(path: Path, side: int = 30_000) -> str:
    """Save a valid PNG of black pixels, one bit each: some 100 kB that a browser would make gigabytes of."""
    packer = zlib.compressobj(9)
    row = bytes(1 + (side + 7) // 8)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    path.write_bytes(_png(side, side, packed))
    return str(path)


def damaged(path: Path) -> str:
    """Save the header of a photo with nothing that belongs to it."""
    path.write_bytes(_png(200, 200, b"no pixels")[:60])
    return str(path)


def huge_jpeg(path: Path) -> str:
    """Save the header of a JPEG that claims the most pixels that it can claim."""
    path.write_bytes(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack("!HH", 65535, 65535) + bytes(100))
    return str(path)


def _png(width: int, height: int, packed: bytes) -> bytes:
    """Return a PNG of black and white (PNG, third edition, section 5)."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))

    header = struct.pack("!IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
