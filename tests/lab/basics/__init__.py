"""What every room uses: programs and where they are, running and awaiting them."""
