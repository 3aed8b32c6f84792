"""Fixtures of the agent's tests."""

from namespaces import inside, new_namespace

__all__ = ["inside", "new_namespace"]
