"""Namespaces, links and shapes of a network, and the user data that is sent through it."""
