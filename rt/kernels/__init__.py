"""Parts of bench-kernels: set-ups in a guest, by kernel."""
