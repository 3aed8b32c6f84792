"""What keeps a node busy while it is measured."""
