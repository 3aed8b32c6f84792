"""What is seen of a node from outside: packets, kernel events, charon's SAs, the control sockets."""
