"""Render charon's strongswan.conf for a mesh node (strongswan.conf(5)).

This charon serves meshsecd alone: connections, keys and SAs come only through VICI.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from meshsec.core.values.model import EspBackend

PLUGIN_DIRECTORIES = (
    Path("/usr/lib/ipsec/plugins"),
    Path("/usr/lib/strongswan/plugins"),
    Path("/usr/lib64/strongswan/plugins"),
    Path("/usr/lib64/ipsec/plugins"),
)
"""Plugin directories of Debian, Arch, Fedora and others."""

_LIBRARY_PREFIX = "libstrongswan-"

_BASE = ("random", "nonce", "openssl", "pem", "pkcs1", "pkcs8", "pubkey", "kdf")
"""openssl does the cryptography; the others read VICI's keys (pkcs1 takes any SubjectPublicKeyInfo)."""

_TAIL = ("kernel-netlink", "socket-default", "vici")

_PACKAGES = "charon-systemd, libstrongswan-standard-plugins, libcharon-extra-plugins (kernel-libipsec)"


class PluginMissingError(Exception):
    """A strongSwan plugin that the node needs is not installed."""


def installed_plugins(directories: Iterable[Path] = PLUGIN_DIRECTORIES) -> frozenset[str]:
    """Return the names of the installed strongSwan plugins; empty if strongSwan is not installed."""
    libraries = (file.stem for directory in directories for file in directory.glob(f"{_LIBRARY_PREFIX}*.so"))
    return frozenset(stem.removeprefix(_LIBRARY_PREFIX) for stem in libraries)


def plugins_for(backend: EspBackend) -> tuple[str, ...]:
    """Return the plugins that charon loads, in this order. Each further plugin would be attack surface.

    kernel-libipsec comes before kernel-netlink, because the first one to register handles ESP.
    """
    esp = ("kernel-libipsec",) if backend is EspBackend.LIBIPSEC else ()
    return _BASE + esp + _TAIL


def render(
    backend: EspBackend,
    vici_socket: Path,
    log: Path | None = None,
    *,
    plugins: Collection[str],
    has_links: bool = False,
) -> str:
    """Return the text of strongswan.conf.

    Without the file ``log`` charon logs to the journal. ``plugins`` are the installed ones (``installed_plugins()``).
    ``has_links``: links over the internet take IPv4, too. Raises ``PluginMissingError`` if a necessary plugin is not
    installed.
    """
    wanted = plugins_for(backend)
    if missing := [name for name in wanted if name not in plugins]:
        raise PluginMissingError(f"strongSwan lacks {', '.join(missing)}; Debian packages: {_PACKAGES}")
    return _TEMPLATE.format(
        load=" ".join(wanted),
        routes=_ROUTES[backend],
        vici_socket=vici_socket,
        log=_FILE_LOG.format(path=log) if log else _JOURNAL,
        sockets=_ANY_VERSION if has_links else _IPV6_ALONE,
    )


_ROUTES = {
    EspBackend.KERNEL: """\
  # The routing daemon owns the routes; table 0 leaves no rule behind that would divert look-ups.
  install_routes = no
  routing_table = 0
""",
    EspBackend.LIBIPSEC: """\
  # User data reaches the TUN device only by a route; a table of its own keeps it apart from the routing daemon's.
  install_routes = yes
  routing_table = 220
  routing_table_prio = 220
""",
}

_JOURNAL = """\
  journal {
    default = 0
    ike = 1
    cfg = 1
  }
"""

_FILE_LOG = """\
  filelog {{
    mesh {{
      path = {path}
      time_format = %b %e %T
      default = 1
      flush_line = yes
    }}
  }}
"""

_IPV6_ALONE = """\
      # IKE runs between IPv6 addresses only.
      use_ipv4 = no
"""

_ANY_VERSION = """\
      # IKE runs between IPv6 addresses in the mesh, and between any addresses over the internet.
      use_ipv4 = yes
"""

_TEMPLATE = """\
# Written by meshsec: changes made here are lost. charon-systemd reads it by STRONGSWAN_CONF.
charon-systemd {{
  load = {load}

{routes}\
  # Routes of a mesh change all the time; SAs bind end points, not paths.
  process_route = no
  install_virtual_ip = no
  make_before_break = yes
  # An IKE_SA without its CHILD_SA protects nothing.
  close_ike_on_child_failure = yes
  # Both ends may start at once; meshsecd decides which SA stays.
  reuse_ikesa = yes
  # The end that initiates chooses among what both allow: it is the one that measures how long a set-up takes.
  prefer_configured_proposals = no

  # Radio loses packets, and a first answer goes nowhere when the peer learns its route back some milliseconds after us:
  # repeat after 0.05 s, half of the deadline of a set-up (the default is 4 s), then 0.1, 0.2, 0.4, 0.8, 1.6, 3, 3, 3 s;
  # the jitter keeps nodes that lost packets together from repeating together. Gives up after about 12 s.
  retransmit_timeout = 0.05
  retransmit_base = 2
  retransmit_tries = 8
  retransmit_jitter = 20
  retransmit_limit = 3

  # Five threads wait for ever (sockets, netlink, TUN, events), every initiate that waits for its end holds one more;
  # some stay free for replies, so that strangers' first messages cannot starve them.
  threads = 24
  processor {{
    priority_threads {{
      high = 2
      medium = 4
    }}
  }}
  # Powers of two: constant look-up time and little lock contention with hundreds of peers.
  ikesa_table_size = 256
  ikesa_table_segments = 16
  # Strangers: cookies (RFC 7296, section 2.6) from 30 half-open SAs on, or 3 from one address. No address is blocked
  # (charon takes 0 for one more than cookie_threshold_ip, so the number is out of reach): a listener could use up a
  # peer's places with cookies that he overhears. A half-open SA ends after 12 s: its initiator gives up then. The
  # guard's rate of 64 a second and address (ADR 0054) times that is 768 of 4096, about 12.5 KB each.
  cookie_threshold = 30
  cookie_threshold_ip = 3
  block_threshold = 65535
  init_limit_half_open = 4096
  half_open_timeout = 12
  # A REDIRECT (RFC 5685) is not authenticated, so anybody on the link could send this node to another gateway.
  follow_redirects = no

  plugins {{
    vici {{
      socket = unix://{vici_socket}
    }}
    kernel-netlink {{
      # No reaction to address and route changes: MOBIKE is off, the routing daemon moves the packets.
      roam_events = no
    }}
    socket-default {{
{sockets}\
    }}
  }}

{log}\
}}
"""
