"""One module for each outside system. Adapters decode at the edge and never import each other."""
