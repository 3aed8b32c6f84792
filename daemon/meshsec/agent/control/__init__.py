"""What programs ask of meshsecd by the control socket, and the facts that answer them."""
