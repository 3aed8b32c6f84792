"""meshsecd's inside: observe, decide, act, verify, in one event loop."""
