"""What other programs that watch networks read of this node: Prometheus's metrics."""
