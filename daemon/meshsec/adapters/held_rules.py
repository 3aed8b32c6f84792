"""Rules that only their maker can remove, by libnftables in this process.

Theory of operation. A table with ``flags owner`` belongs to the netlink socket that made it (Linux 5.12): nobody else
can alter or delete it, ``nft flush ruleset`` passes it over, and it goes when the socket is closed, so at the latest
with the process. The program ``nft`` has a socket of its own for each run; here it is that of the context, which lives
as long as the rules shall.
"""

import ctypes
from functools import cache
from typing import Any

_LIBRARY = "libnftables.so.1"


class HeldRulesError(Exception):
    """The rules could not be set; the text is that of libnftables. None are held then."""


class HeldRules:
    """Holds what was applied last, until ``close``. Calls block, and one must end before the next begins."""

    def __init__(self) -> None:
        self._context: int | None = None

    def apply(self, text: str) -> None:
        """Run a transaction of nft(8). Raises HeldRulesError; what was held before is given up then."""
        library = _library()
        if self._context is None:
            self._context = library.nft_ctx_new(0)
            library.nft_ctx_buffer_output(self._context)
            library.nft_ctx_buffer_error(self._context)
        if library.nft_run_cmd_from_buffer(self._context, text.encode()):
            reason = library.nft_ctx_get_error_buffer(self._context).decode("utf-8", "replace").strip()
            self.close()
            raise HeldRulesError(reason or "libnftables gives no reason")

    def close(self) -> None:
        """Give up what is held."""
        if self._context is not None:
            _library().nft_ctx_free(self._context)
            self._context = None


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
