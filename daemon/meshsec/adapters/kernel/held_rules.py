"""Hold rules that nobody else can remove, with libnftables in this process.

Theory of operation. A table with ``flags owner`` belongs to the netlink socket that made it (Linux 5.12). Nobody else
can change or delete it, ``nft flush ruleset`` skips it, and it disappears with the socket. The program ``nft`` opens a
socket for each run; here the socket is that of the library's context, and it stays open as long as the rules must. It
can be passed to a process that outlives this one, so that the table stays until the successor has its own.
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
    """The rules could not be set, and none are held. The text is that of libnftables."""


class HeldRules:
    """Hold the rules of the last ``apply`` until ``close``. Calls block, and must not overlap."""

    def __init__(self, names: Sequence[str], predecessors: Mapping[str, int]) -> None:
        """Take the ``names`` that the table may have, and the ``predecessors``' sockets by table name.

        One name is enough without predecessors. A table that replaces a predecessor's needs a second name, because
        both exist for a moment. The sockets become ours.
        """
        self._names = names
        self._context: int | None = None
        self._table = ""
        self._predecessors = dict(predecessors)
        self.sockets: Mapping[str, int] = dict(predecessors)
        """Sockets by the name of the table that each holds. A table exists while any process has its socket open."""

    def apply(self, transaction: Callable[[str], str]) -> None:
        """Run a transaction of nft(8) for the table of the given name, and remove the predecessors' tables.

        Raises HeldRulesError, and then the rules that were held before are gone too.
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
        """Release the rules that this process holds."""
        if self._context is not None:
            _library().nft_ctx_free(self._context)
            self._context = None
            self.sockets = self._predecessors

    def _open(self, library: Any) -> None:
        """Open a context under another name than before if possible, because the old table exists while anybody has its
        socket.
        """
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
    """Return our nftables sockets without subscriptions. libnftables does not say which socket is its own."""
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
    """Load libnftables and declare the functions that are called (libnftables(3))."""
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
