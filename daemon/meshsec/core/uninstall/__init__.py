"""What stays on a machine when meshsec goes, and how that is undone."""
