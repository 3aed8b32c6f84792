"""Where this node is, by a receiver that another program reads."""
