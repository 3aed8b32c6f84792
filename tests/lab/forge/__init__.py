"""Forged packets for `tests/attacks`: a stranger's, built with scapy where it knows the protocol.

One module for each protocol: ``raw`` (Ethernet, IPv4, IPv6), ``rfc5444`` (OLSRv2), ``ike`` and ``overlay``; ``insider``
is a trusted peer's IKEv2 and ESP. A module builds bytes; ``raw`` and ``insider`` also send them from a namespace.
"""
