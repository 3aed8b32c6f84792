"""``meshsec bench``: measure this node, and the way to a peer."""
