"""The configurations of dnsmasq and hostapd."""

from ipaddress import IPv6Address, ip_address, ip_network

import pytest

from meshsec.core.access.clients import Client
from meshsec.core.config.access_settings import AccessRadio, AccessSecurity, AccessSettings
from meshsec.core.formats import dnsmasq, hostapd

BOTH = (ip_network("10.130.0.0/16"), ip_network("fd00:1::/64"))
RADIO = AccessRadio("wlan0", "Tal ü", 2437)
NODE = IPv6Address("fc00::a")


def lines(access: AccessSettings) -> list[str]:
    places = dnsmasq.Places("/run/meshsec/access", "/run/meshsec/names", "/run/meshsec-access")
    return dnsmasq.render(access, places, "Written.").splitlines()


def test_dnsmasq_gives_addresses_and_says_who_the_gateway_is() -> None:
    found = lines(AccessSettings(BOTH))
    assert found[0] == "# Written."
    assert "dhcp-range=10.130.0.2,10.130.255.254,255.255.0.0,1h" in found
    assert {"dhcp-option=option:router,10.130.0.1", "dhcp-option=option:dns-server,10.130.0.1"} < set(found)
    assert "dhcp-range=fd00:1::,ra-stateless,off-link,64,1h" in found
    assert {"dhcp-authoritative", "dhcp-lease-max=128", "dhcp-hostsdir=/run/meshsec/access"} < set(found)
    assert "dhcp-leasefile=/run/meshsec-access/leases" in found
    assert "dhcp-option=option6:dns-server,[::]" in found


def test_dnsmasq_tells_of_the_resolvers_of_the_operator() -> None:
    resolvers = tuple(map(ip_address, ("192.0.2.1", "2001:db8::1", "192.0.2.2")))
    found = lines(AccessSettings(BOTH, resolvers=resolvers))
    assert "dhcp-option=option:dns-server,192.0.2.1,192.0.2.2" in found
    assert "dhcp-option=option6:dns-server,[2001:db8::1]" in found


def test_a_node_answers_where_an_ip_version_of_its_clients_has_no_resolver() -> None:
    four, six = map(ip_address, ("192.0.2.1", "2001:db8::1"))
    asked = [AccessSettings(BOTH, resolvers=given).answers_names for given in ((), (four,), (six,), (four, six))]
    assert asked == [True, True, True, False]
    assert not AccessSettings(BOTH[:1], resolvers=(four,)).answers_names
    assert not AccessSettings().answers_names


def test_nodes_have_names_that_nobody_else_gives_and_clients_have_theirs_below_this_nodes() -> None:
    found = lines(AccessSettings(BOTH))
    assert {"hostsdir=/run/meshsec/names", "local=/mesh/", "local=/c.f.ip6.arpa/"} < set(found)
    assert "dhcp-ignore-names" in found, "meshsecd writes them"
    assert {"dhcp-option=option:domain-name,mesh", "dhcp-option=option6:domain-search,mesh"} < set(found)


@pytest.mark.parametrize(("network", "absent"), [(BOTH[0], "enable-ra"), (BOTH[1], "dhcp-authoritative")])
def test_dnsmasq_gives_nothing_of_a_version_that_clients_do_not_have(network: object, absent: str) -> None:
    assert absent not in lines(AccessSettings((network,)))  # type: ignore[arg-type]


def test_a_small_network_has_no_more_leases_than_addresses() -> None:
    assert "dhcp-lease-max=13" in lines(AccessSettings((ip_network("10.130.0.0/28"),)))


def test_dnsmasq_keeps_the_address_of_each_client() -> None:
    addresses = tuple(map(ip_address, ("fd00:1::5", "10.130.0.5")))
    clients = [Client("06:00:00:00:00:02", NODE, 1, addresses), Client("06:00:00:00:00:01", NODE, 1, ())]
    assert dnsmasq.hosts(clients) == "06:00:00:00:00:02,10.130.0.5\n"


def access_point(radio: AccessRadio) -> set[str]:
    text = hostapd.render(AccessSettings(BOTH, clients=7), radio, "correct horse", "/run/x", "Written.")
    return set(text.splitlines())


def test_the_access_point_belongs_to_the_bridge_and_forwards_nothing_itself() -> None:
    found = access_point(RADIO)
    assert {
        "interface=wlan0",
        "bridge=meshsec-clients",
        "ap_isolate=1",
        "max_num_sta=7",
        "ctrl_interface=/run/x",
    } < found
    assert {"hw_mode=g", "channel=6", "ssid2=54616c20c3bc"} < found
    assert not [line for line in found if line.startswith(("country_code", "ieee80211d"))]


def test_the_access_point_of_the_upper_band_obeys_its_rules() -> None:
    found = access_point(AccessRadio("wlan0", "valley", 5180, country="DE"))
    assert {"hw_mode=a", "channel=36", "country_code=DE", "ieee80211d=1", "ieee80211h=1"} < found


@pytest.mark.parametrize(
    ("security", "expected", "unexpected"),
    [
        (AccessSecurity.SAE, {"wpa_key_mgmt=SAE", "ieee80211w=2"}, "wpa_passphrase=correct horse"),
        (
            AccessSecurity.MIXED,
            {"wpa_key_mgmt=SAE WPA-PSK WPA-PSK-SHA256", "ieee80211w=1", "wpa_passphrase=correct horse"},
            "ieee80211w=2",
        ),
    ],
)
def test_clients_join_with_wpa3_and_old_ones_with_wpa2_where_that_is_wanted(
    security: AccessSecurity, expected: set[str], unexpected: str
) -> None:
    found = access_point(AccessRadio("wlan0", "valley", 2437, security))
    assert expected | {"wpa=2", "rsn_pairwise=CCMP", "sae_password=correct horse"} < found
    assert unexpected not in found


@pytest.mark.parametrize(
    ("frequency", "channel"),
    [(2412, 1), (2472, 13), (2477, None), (2484, 14), (2413, None), (5180, 36), (5885, 177), (5182, None)],
)
def test_a_frequency_is_the_centre_of_a_channel(frequency: int, channel: int | None) -> None:
    assert AccessRadio("wlan0", "valley", frequency).channel == channel
