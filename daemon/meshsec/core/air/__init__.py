"""What happens on the air: frames of a monitor interface in, exchanges and figures by neighbour out."""
