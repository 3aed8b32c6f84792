"""What the page in the browser shows, how it follows changes, and by whose authority it makes some."""
