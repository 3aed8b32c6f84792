"""Networks behind nodes: through which peer each is reached."""
