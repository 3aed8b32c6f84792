"""Files of this node: settings, keys, trusted cards and the modes that the operator chose."""
