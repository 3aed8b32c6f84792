"""The overlay: overlayd's control socket, its routes, and cjdns's configuration."""
