"""The daemons end first and the rules go last; what is not there needs no step."""

from dataclasses import replace
from pathlib import Path

from meshsec.core.uninstall.plan import FIREWALL, UNITS, Facts, Unit, ending, giving_back, staying, undoing
from meshsec.core.uninstall.sysctls import Change

FORWARD = Change("net/ipv4/ip_forward", "1", "0", "the kernel's default")
REDIRECTS = Change("net/ipv6/conf/all/accept_redirects", "0", "1", "the kernel's default")
IKE = Unit("strongswan.service", is_enabled=True, is_active=True)
FACTS = Facts(
    units=(
        Unit("meshsec.target", is_enabled=True, is_active=True),
        Unit("meshsecd.service", is_enabled=False, is_active=True),
        Unit(FIREWALL, is_enabled=False, is_active=True),
    ),
    replaced=(IKE,),
    record="/var/lib/meshsec/.replaced-units.json",
    radios=("wlan1",),
    has_names=True,
    drop_ins=("/etc/systemd/system/meshsecd.service.d/50-meshsec-gateway.conf",),
    devices=("meshsec-nets",),
    routes=(("-6", 100),),
    rules=(("-4", 102),),
    addresses=(("lo", "fc00::1/128"),),
    sysctls=(FORWARD,),
    priorities=(4_000_000_000,),
    ends=("fd00::1",),
    tables=("meshsec_ike", "meshsec"),
    secrets=("/var/lib/meshsec/node.key",),
)


def texts(*steps: object) -> list[str]:
    return [str(one) for one in steps]


def test_the_daemons_end_before_anything_else_and_do_not_come_back() -> None:
    assert texts(*ending(FACTS)) == [
        "systemctl disable meshsec.target",
        "systemctl stop meshsec.target meshsecd.service",
    ]


def test_only_a_systemd_that_runs_reads_its_files_again() -> None:
    assert "systemctl daemon-reload" not in texts(*undoing(replace(FACTS, has_systemd=False)))


def test_what_concerns_others_opens_nothing() -> None:
    assert texts(*giving_back(FACTS)) == [
        "meshsec hosts --remove",
        "systemctl enable --now strongswan.service",
        "rm /var/lib/meshsec/.replaced-units.json",
    ]
    assert giving_back(Facts()) == ()


def test_forwarding_stays_where_another_program_translates_addresses() -> None:
    facts = replace(FACTS, translators=("ip nat",), sysctls=(FORWARD, REDIRECTS))
    steps = texts(*undoing(facts))
    assert [one for one in steps if one.startswith("sysctl")] == [
        "sysctl net/ipv6/conf/all/accept_redirects: 0 -> 1 (the kernel's default)"
    ]
    assert (
        "stays: net/ipv4/ip_forward is 1, because others translate addresses here (nftables: ip nat); if nothing "
        "forwards: `sysctl -w net/ipv4/ip_forward=0`"
    ) in staying(facts)


def test_the_rules_go_last() -> None:
    assert texts(*undoing(FACTS)) == [
        "ip link set wlan1 down; iw dev wlan1 set type managed",
        "rm /etc/systemd/system/meshsecd.service.d/50-meshsec-gateway.conf",
        "systemctl daemon-reload",
        "meshsec hosts --remove",
        "systemctl enable --now strongswan.service",
        "rm /var/lib/meshsec/.replaced-units.json",
        "sysctl net/ipv4/ip_forward: 1 -> 0 (the kernel's default)",
        "ip -6 route flush table all proto 100",
        "ip -4 rule flush protocol 102",
        "ip link delete meshsec-nets",
        "ip address delete fc00::1/128 dev lo",
        "ip xfrm state deleteall src fd00::1",
        "ip xfrm policy deleteall src fd00::1",
        "ip xfrm state deleteall dst fd00::1",
        "ip xfrm policy deleteall dst fd00::1",
        "ip xfrm policy deleteall priority 4000000000",
        f"systemctl stop {FIREWALL}",
        "nft delete table inet meshsec_ike",
        "nft delete table inet meshsec",
    ]


def test_where_nothing_is_left_there_is_nothing_to_do() -> None:
    assert (ending(Facts()), undoing(Facts())) == ((), ())


def test_another_ike_daemon_is_what_it_was_before() -> None:
    def of(*, is_enabled: bool, is_active: bool) -> list[str]:
        unit = Unit("ipsec.service", is_enabled=is_enabled, is_active=is_active)
        return texts(*undoing(Facts(replaced=(unit,))))

    assert of(is_enabled=True, is_active=False) == ["systemctl enable ipsec.service"]
    assert of(is_enabled=False, is_active=True) == ["systemctl start ipsec.service"]
    assert of(is_enabled=False, is_active=False) == []


def test_what_stays_is_said() -> None:
    said = "\n".join(staying(replace(FACTS, unrecorded=("ipsec.service",))))
    for word in ("/var/lib/meshsec/node.key", "zeroize", "backup", "`systemctl enable --now ipsec.service`"):
        assert word in said
    nothing = "\n".join(staying(Facts()))
    assert "zeroize" not in nothing
    assert "ipsec" not in nothing


def test_every_unit_of_the_packages_is_known() -> None:
    directory = Path(__file__).parents[2] / "systemd"
    files = {path.name for kind in ("service", "target", "mount") for path in directory.glob(f"*.{kind}")}
    assert files - {"meshsec-radio@.service"} == set(UNITS)


def test_a_sealed_key_that_stays_needs_meshsec() -> None:
    assert not any("key unseal" in line for line in staying(FACTS))
    assert any("`meshsec key unseal` before makes it" in line for line in staying(replace(FACTS, is_sealed=True)))
