"""A PMTiles file (version 3) with one image of the whole world, in one colour."""

import struct
import zlib

_SIDE = 256
_HEADER = 127


def one_colour(red: int, green: int, blue: int) -> bytes:
    """Return the file."""
    image = _png(bytes((red, green, blue)))
    directory = _varints(1, 0, 1, len(image), 1)  # one entry: its tile's number, run, length, and offset + 1
    data = _HEADER + len(directory) + 2
    header = b"PMTiles\x03" + struct.pack(
        "<11Q6B4iB2i",
        *(_HEADER, len(directory), _HEADER + len(directory), 2, data, 0, data, len(image)),
        *(1, 1, 1),  # addressed tiles, entries, contents
        *(1, 1, 1, 2, 0, 0),  # clustered; nothing is compressed; PNG; the zoom levels
        *(-1_800_000_000, -850_000_000, 1_800_000_000, 850_000_000),
        *(0, 0, 0),
    )
    return header + directory + b"{}" + image


def _varints(*values: int) -> bytes:
    found = bytearray()
    for value in values:
        left = value
        while left > 0x7F:
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
    return bytes(found)


def _png(pixel: bytes) -> bytes:
    rows = (b"\0" + pixel * _SIDE) * _SIDE
    header = struct.pack(">2I5B", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
