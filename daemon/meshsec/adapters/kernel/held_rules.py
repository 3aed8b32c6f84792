"""Rules that only their maker can remove, by libnftables in this process.

Theory of operation. A table with ``flags owner`` belongs to the netlink socket that made it (Linux 5.12): nobody else
can alter or delete it, ``nft flush ruleset`` passes it over, and it goes when the socket is closed. The program ``nft``
has a socket of its own for each run; here it is that of the context, which lives as long as the rules shall. It may be
passed on, to whoever outlives this process: then the table stands until the successor has one of its own.
"""

import ctypes
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARY = "libnftables.so.1"
_NETLINK_NETFILTER = 12
"""linux/netlink.h."""


class HeldRulesError(Exception):
    """The rules could not be set; the text is that of libnftables. None are held then."""


class HeldRules:
    """Holds what was applied last, until ``close``. Calls block, and one must end before the next begins."""

    def __init__(self, names: Sequence[str], predecessors: Mapping[str, int]) -> None:
        """``names``: two or more for the table. ``predecessors``: sockets that hold one of a name; they become ours."""
        self._names = names
        self._context: int | None = None
        self._table = ""
        self._predecessors = dict(predecessors)
        self.sockets: Mapping[str, int] = dict(predecessors)
        """By the name of its table each socket that holds one: it stands as long as any process has that open."""

    def apply(self, transaction: Callable[[str], str]) -> None:
        """Run a transaction of nft(8) for the table of the given name, and end those of predecessors.

        Raises HeldRulesError; what this process held before is given up then.
        """
        library = _library()
        if self._context is None:
            self._open(library)
        if library.nft_run_cmd_from_buffer(self._context, transaction(self._table).encode()):
            reason = library.nft_ctx_get_error_buffer(self._context).decode("utf-8", "replace").strip()
            self.close()
            raise HeldRulesError(reason or "libnftables gives no reason")
        self._end_predecessors()

    def close(self) -> None:
        """Give up what this process holds."""
        if self._context is not None:
            _library().nft_ctx_free(self._context)
            self._context = None
            self.sockets = self._predecessors

    def _open(self, library: Any) -> None:
        """Under another name than before, if there is one: whoever keeps that socket open keeps its table, too."""
        before = _netfilter_sockets()
        free = [name for name in self._names if name not in self.sockets]
        self._table = min(free, key=lambda name: name == self._table)
        self._context = library.nft_ctx_new(0)
        library.nft_ctx_buffer_output(self._context)
        library.nft_ctx_buffer_error(self._context)
        (made,) = _netfilter_sockets() - before
        self.sockets = {**self._predecessors, self._table: made}

    def _end_predecessors(self) -> None:
        for name, descriptor in self._predecessors.items():
            os.close(descriptor)
            self.sockets = {table: one for table, one in self.sockets.items() if table != name}
        self._predecessors = {}


def _netfilter_sockets() -> set[int]:
    """This process's sockets to nftables that hear no news: libnftables does not tell which is its own."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if _is_netfilter(path)}


def _is_netfilter(path: Path) -> bool:
    try:
        if not str(path.readlink()).startswith("socket:"):
            return False
        with socket.socket(fileno=os.dup(int(path.name))) as one:
            kind = one.family, one.proto, one.getsockname()[1:]
    except OSError:  # another thread has closed it
        return False
    return kind == (socket.AF_NETLINK, _NETLINK_NETFILTER, (0,))


@cache
def _library() -> Any:
    """The library with the types of what is called (libnftables(3))."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise HeldRulesError(str(error)) from error
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_free.restype = None
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    for name in ("nft_ctx_free", "nft_ctx_buffer_output", "nft_ctx_buffer_error", "nft_ctx_get_error_buffer"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library
