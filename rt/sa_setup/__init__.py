"""Parts of bench-sa-setup: cold set-ups under load."""
