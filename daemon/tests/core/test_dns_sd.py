"""Services as DNS-SD records: what the list may have, and what of it clients are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.formats import dns_sd
from meshsec.core.formats.dns_sd import SERVICES_MAX, DnsSdError, Offered
from meshsec.core.services.services import Protocol, Service

WIKI, CLOCK = Service("wiki", 80), Service("clock", 123, Protocol.UDP, "the time")


def test_the_list_is_read_back_without_descriptions_and_has_a_bound() -> None:
    text = dns_sd.render([Offered("bravo", WIKI), Offered("c", CLOCK)])
    assert text == "bravo wiki tcp 80\nc clock udp 123\n"
    assert dns_sd.parse(text) == (Offered("bravo", WIKI), Offered("c", Service("clock", 123, Protocol.UDP)))
    assert len(dns_sd.parse(dns_sd.render([Offered("bravo", WIKI)] * 2 * SERVICES_MAX))) == SERVICES_MAX


@pytest.mark.parametrize(
    "line",
    [
        "bravo wiki tcp", "bravo wiki tcp 0", "bravo wiki tcp 65536", "bravo wiki tcp 080", "bravo wiki sctp 80", "",
        "bravo wi\"ki tcp 80", "bravo.c wiki tcp 80", "bravo wiki tcp 80 x", "Bravo wiki tcp 80", "conf-file=/etc/x",
    ],
)  # fmt: skip
def test_a_line_that_meshsecd_cannot_have_written_is_refused(line: str) -> None:
    with pytest.raises(DnsSdError, match="line 2 is"):
        dns_sd.parse(f"bravo wiki tcp 80\n{line}\n")


def test_each_service_has_its_records_and_each_type_one_entry() -> None:
    lines = dns_sd.dnsmasq([Offered("bravo", WIKI), Offered("c", WIKI), Offered("c", CLOCK)]).splitlines()
    assert {"no-resolv", "no-hosts", "local=/mesh/", "listen-address=127.0.0.1", "port=717"} < set(lines)
    assert [line for line in lines if "=_services" in line] == [
        "ptr-record=_services._dns-sd._udp.mesh,_http._tcp.mesh",
        "ptr-record=_services._dns-sd._udp.mesh,_ntp._udp.mesh",
    ]
    assert [line for line in lines if line.startswith("srv-host=")] == [
        'srv-host="wiki on bravo._http._tcp.mesh",bravo.mesh,80',
        'srv-host="wiki on c._http._tcp.mesh",c.mesh,80',
        'srv-host="clock on c._ntp._udp.mesh",c.mesh,123',
    ]
    assert 'txt-record="clock on c._ntp._udp.mesh"' in lines


def test_a_service_without_a_protocol_is_left_out_and_a_long_name_is_cut() -> None:
    assert "=" + '"' not in dns_sd.dnsmasq([Offered("bravo", Service("a-name-that-is-too-long", 1))])
    text = dns_sd.dnsmasq([Offered("n" * 32, Service("s" * 32, 80))])
    assert f'"{"s" * 24}-80 on {"n" * 32}._http' in text


def test_two_long_services_of_a_node_stay_two() -> None:
    node, name = "n" * 32, "s" * 31
    text = dns_sd.dnsmasq([Offered(node, Service(f"{name}a", 80)), Offered(node, Service(f"{name}b", 8080))])
    assert len([line for line in text.splitlines() if line.startswith("ptr-record=_http")]) == 2
    assert len({line.split(",")[0] for line in text.splitlines() if line.startswith("srv-host=")}) == 2


@given(st.text(max_size=60))
def test_any_text_is_refused_or_makes_records_alone(text: str) -> None:
    try:
        found = dns_sd.parse(text)
    except DnsSdError:
        return
    own = dns_sd.dnsmasq(()).splitlines()
    assert all(
        line.startswith(("ptr-record=", "srv-host=", "txt-record=")) or line in own
        for line in dns_sd.dnsmasq(found).splitlines()
    )
