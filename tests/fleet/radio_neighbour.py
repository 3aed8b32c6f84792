"""A board's second radio in a namespace of its own, as the neighbour of the first. Both are mac80211_hwsim's."""

from tests.lab.basics.waiting import wait_until
from tests.lab.machines.board import Board

JOIN_SECONDS = 180.0
STATIONS = "iw dev wlan0 station dump"
UNIT = "neighbour"
_SECOND_RADIO = f"ip netns add {UNIT} && iw phy $(cat /sys/class/net/wlan1/phy80211/name) set netns name {UNIT}"


def load_radios(machine: Board) -> None:
    """Give the board two radios, which it has again after a boot."""
    machine.ssh("echo options mac80211_hwsim radios=2 >/etc/modprobe.d/radios.conf && modprobe mac80211_hwsim")


def move(machine: Board) -> None:
    """Move the second radio into its namespace."""
    machine.ssh(_SECOND_RADIO)


def join(machine: Board, password: str) -> None:
    """Have the second radio join by hand. The board has a meshsec.toml, which says what the mesh is."""
    machine.ssh("install -m 0600 /dev/stdin /root/neighbour.password", stdin=f"{password}\n")
    machine.ssh(
        f"systemd-run --quiet --collect --unit={UNIT} --property=RuntimeDirectory={UNIT}"
        " --property=LoadCredential=meshsec.sae-password:/root/neighbour.password"
        f" ip netns exec {UNIT} meshsec-radio wlan1"
    )


def wait_peering(machine: Board, seconds: float) -> None:
    """Wait until the first radio has a peering."""
    wait_until("a peering", lambda: "ESTAB" in machine.ssh(STATIONS).stdout, (), seconds)
