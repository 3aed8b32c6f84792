"""What nodes offer to each other."""
