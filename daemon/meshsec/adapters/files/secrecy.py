"""Keeps the memory of this process, in which keys are, from core dumps and from other programs of its user."""

import ctypes
import logging
import os
import resource

_PR_SET_DUMPABLE = 4
_NO_DUMP = 1
"""RLIMIT_CORE in octets: less than any core file needs, and the one value that stops piped dumps as well (core(5))."""

_log = logging.getLogger(__name__)


def keep_private() -> None:
    """Allow neither a core dump nor ptrace(2) by the same user; programs that are started leave no core dump either.

    What cannot be had is logged: it is no reason not to protect traffic.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard == resource.RLIM_INFINITY or hard > _NO_DUMP:  # a unit has lowered it already
        resource.setrlimit(resource.RLIMIT_CORE, (_NO_DUMP, _NO_DUMP))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        _log.warning("the memory of this process may be dumped: prctl: %s", os.strerror(ctypes.get_errno()))
