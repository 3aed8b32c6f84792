"""The tables of ``meshsec.toml``: read, bounded and checked."""
