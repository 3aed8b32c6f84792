"""The channels to peers: what ought to be, what is, and the actions in between."""
