"""The kernel: addresses, routes, rules, SAs and sockets."""
