"""What goes wrong on a machine: a busy processor, a full disk, no memory."""
