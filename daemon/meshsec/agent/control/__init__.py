"""The methods of meshsecd's control socket, and the facts for their answers."""
