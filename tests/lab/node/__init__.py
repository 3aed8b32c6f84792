"""A node that runs the product, and what the machine below it offers."""
