"""Whether user data gets through to peers, and which relays are avoided because it does not."""
