"""Parts of bench-throughput: what each plane carries."""
