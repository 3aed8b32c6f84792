"""Parts of bench-kernels and bench-sa-setup-guest: set-ups in a guest, by kernel."""
