"""Parts of bench-primitives: what programs that measure a processor print."""
