"""What ``meshsec bench`` reports: samples and their figures, and what other programs' measurements say."""
