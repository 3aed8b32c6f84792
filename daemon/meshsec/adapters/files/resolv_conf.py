"""Read which resolvers this machine asks for names (resolv.conf(5))."""

from ipaddress import ip_address
from pathlib import Path

from meshsec import files
from meshsec.core.values.model import Address

_LIMIT = 64 * 1024


def nameservers(path: Path) -> tuple[Address, ...]:
    """Return the addresses of the resolvers; none where the file cannot be read."""
    try:
        lines = [line.split() for line in files.read(path, _LIMIT).splitlines()]
    except files.FileError:
        return ()
    return tuple(one for line in lines if line[:1] == ["nameserver"] for one in map(_address, line[1:2]) if one)


def _address(text: str) -> Address | None:
    """Return an address, which may have a zone; None: it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None
