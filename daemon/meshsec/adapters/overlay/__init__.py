"""The overlay: overlayd by its control socket, its routes, and cjdns's configuration."""
