"""``hostapd.conf`` of an access node: the access point, by which clients join (hostapd 2.10 and later)."""

from collections.abc import Iterator

from meshsec.core.access.shared_address import DEVICE
from meshsec.core.config.access_settings import AccessRadio, AccessSecurity, AccessSettings

_5GHZ = 5000
"""MHz from which a channel is one of the upper band."""


def render(access: AccessSettings, radio: AccessRadio, password: str, control: str, comment: str) -> str:
    """Return the text, which contains the password. ``control`` is the directory of hostapd's control socket."""
    lines = [*_radio(radio), f"ctrl_interface={control}", *_network(access, radio), *_security(radio, password)]
    return "\n".join([f"# {comment}", *lines]) + "\n"


def _radio(radio: AccessRadio) -> Iterator[str]:
    is_upper = radio.frequency > _5GHZ
    yield from (f"interface={radio.interface}", "driver=nl80211", f"bridge={DEVICE}")
    yield from (f"hw_mode={'a' if is_upper else 'g'}", f"channel={radio.channel}", "ieee80211n=1", "wmm_enabled=1")
    if radio.country:
        yield from (f"country_code={radio.country}", "ieee80211d=1", *(["ieee80211h=1"] if is_upper else []))


def _network(access: AccessSettings, radio: AccessRadio) -> Iterator[str]:
    """Clients reach each other through the node's rules alone, so the radio forwards nothing between them."""
    yield f"ssid2={radio.ssid.encode().hex()}"
    yield from (f"max_num_sta={access.clients}", "ap_isolate=1", "utf8_ssid=1")


def _security(radio: AccessRadio, password: str) -> Iterator[str]:
    """WPA3, with management frames protected; with WPA2 beside it they are for those clients who can."""
    is_mixed = radio.security is AccessSecurity.MIXED
    yield from ("auth_algs=1", "wpa=2", "rsn_pairwise=CCMP", "sae_pwe=2", "sae_require_mfp=1")
    yield f"wpa_key_mgmt=SAE{' WPA-PSK WPA-PSK-SHA256' if is_mixed else ''}"
    yield f"ieee80211w={1 if is_mixed else 2}"
    yield f"sae_password={password}"
    if is_mixed:
        yield f"wpa_passphrase={password}"
