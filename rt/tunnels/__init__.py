"""Parts of bench-tunnels: ways to carry a network's packets inside the SA of two nodes."""
