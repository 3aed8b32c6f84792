"""What all benchmarks use: the form of a result, comparison with earlier ones, processors of their own."""
