"""How well a node is, as JSON: which peers are protected, which units run, what ``meshsec doctor`` finds wrong.

health.py PACKAGE...
"""

import json
import subprocess
import sys

UNITS = (
    "meshsec-firewall",
    "meshsec-ike",
    "meshsec-pluto",
    "meshsecd",
    "olsrv2d",
    "olsrv2-signer",
    "overlayd",
    "meshsec-names",
    "meshsec-dns-sd",
    "meshsec-page",
    "meshsec-zeroize",
    "meshsec-keys",
)


def said(*command):
    """What a program prints; nothing where it is not there, or says nothing in time."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def view(*command):
    """The JSON that a program prints, or an empty one."""
    try:
        return json.loads(said(*command))
    except ValueError:
        return {}


def health(packages):
    """Lists of names, each sorted."""
    peers = view("meshsec", "status", "--json").get("peers", [])
    checks = view("meshsec", "doctor", "--json").get("checks", [{"name": "doctor says nothing", "level": "fail"}])
    states = said("systemctl", "is-active", *UNITS).split()
    versions = said("dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *packages)
    return {
        "protected": sorted(peer["name"] for peer in peers if peer["state"] == "protected"),
        "units": sorted(unit for unit, state in zip(UNITS, states, strict=False) if state == "active"),
        "failing": sorted({check["name"] for check in checks if check["level"] == "fail"}),
        "restarts": said("systemctl", "show", "--property", "NRestarts", "--value", *UNITS).split(),
        "versions": sorted(line for line in versions.splitlines() if not line.endswith(" ")),
    }


if __name__ == "__main__":
    print(json.dumps(health(sys.argv[1:])))
