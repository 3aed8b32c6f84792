"""What a driver asks of the kernel, how large it is, and which of its functions run."""
