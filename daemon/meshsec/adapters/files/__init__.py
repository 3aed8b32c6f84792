"""Files of this node: settings, keys, trusted cards and what the operator chose."""
