"""Programs of other projects with which the product is tested or compared."""
