"""meshsec: a mesh that secures itself. OLSRv2 routes, IPsec between every pair of nodes that trust each other."""

__version__ = "0.1.0"
