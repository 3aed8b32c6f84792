"""Where nodes are."""
