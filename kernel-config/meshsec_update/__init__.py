"""Updates a node that was made from the image: verifies an update, writes it beside what runs, judges its first boot.

It is in the image as `meshsec-update`. It needs Python's own library only, and leaves the writing to systemd-sysupdate.
"""
