"""The kernel's scheduler: classes of threads, control groups, and the host's limits (``scheduler.Scheduler``)."""

from meshsec.adapters.scheduler.host import look
from meshsec.adapters.scheduler.journal import JournalError
from meshsec.adapters.scheduler.realtime_groups import in_force as has_realtime_groups
from meshsec.adapters.scheduler.scheduler import Scheduler

__all__ = ["JournalError", "Scheduler", "has_realtime_groups", "look"]
