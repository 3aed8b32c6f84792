"""What the tests of the agent share."""

from namespaces import inside, new_namespace

__all__ = ["inside", "new_namespace"]
