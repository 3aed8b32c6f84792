"""Clients of access nodes: which node serves each, and what they may do."""
