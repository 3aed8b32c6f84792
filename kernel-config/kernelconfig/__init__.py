"""What meshsec needs of a kernel's configuration: reads fragments and configurations, compares, explains."""
