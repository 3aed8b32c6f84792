"""What must be destroyed so that a lost node is harmless, and what is said of it."""
