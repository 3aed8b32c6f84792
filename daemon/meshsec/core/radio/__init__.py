"""How a radio gets into the mesh and back out."""
