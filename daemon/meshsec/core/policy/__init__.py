"""What a policy profile says: suites, limits, exceptions, and what an IKE daemon can do of it."""
