"""Protect the memory of this process, which holds keys, from core dumps and other programs of its user."""

import ctypes
import logging
import os
import resource

_PR_SET_DUMPABLE = 4
_NO_DUMP = 1
"""RLIMIT_CORE in bytes: less than any core file, and the only value that also stops piped dumps (core(5))."""

_log = logging.getLogger(__name__)


def keep_private() -> None:
    """Forbid core dumps, and ptrace(2) by the same user. Child processes leave no core dumps either.

    A failure is only logged, because unprotected traffic would be worse.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard == resource.RLIM_INFINITY or hard > _NO_DUMP:  # the unit may have set a lower limit
        resource.setrlimit(resource.RLIMIT_CORE, (_NO_DUMP, _NO_DUMP))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        _log.warning("the memory of this process may be dumped: prctl: %s", os.strerror(ctypes.get_errno()))
