"""Programs of other projects that the product meets or is compared with."""
