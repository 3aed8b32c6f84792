"""Builds the vehicle image: a bootable disk with Debian 13, a PREEMPT_RT kernel and meshsec.

See docs/guide/vehicle-image.md.
"""
