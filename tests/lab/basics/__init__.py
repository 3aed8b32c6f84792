"""What every other room uses: programs and their places, processes, and waiting with a deadline."""
