"""One node with the product in it, and what the machine below can do."""
