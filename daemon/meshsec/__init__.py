"""meshsec: a mesh that secures itself. OLSRv2 routes, IPsec between every pair of nodes that trust each other."""
