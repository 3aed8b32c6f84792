"""Reading cjdroute.conf: comments, line numbers, and files that are no JSON."""

from ipaddress import IPv6Address
from pathlib import Path

import pytest

from meshsec.adapters.overlay import cjdroute_file
from meshsec.adapters.overlay.cjdroute_file import CjdrouteError
from meshsec.core.formats import overlayd
from meshsec.core.formats.overlayd import Admin, Beacons, Ethernet, Neighbour, OverlayConf, Udp, User

SAMPLE = Path(__file__).parents[3] / "tests/vectors/cjdns/cjdroute.conf"
B = "y08gbq4bm48p3dg60n7k8h2qyk6qf0b490f5mk1lzgu0xz7xc850.k"
C = "lhk1gzbt32470195wx7uvnur9q8gtzm69grctnxfhj7jsnqlysz0.k"


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(CjdrouteError) as error:
        cjdroute_file.load(path)
    return str(error.value)


def test_a_whole_file_is_imported() -> None:
    assert cjdroute_file.load(SAMPLE).imported.conf == OverlayConf(
        users=(
            User('password // of "login-a"', "login-a"),
            User("password-for-one", None, IPv6Address("fca2:e730:87a7:cf71:35f3:e12d:b48a:c6c6")),
        ),
        udp=(
            Udp(
                "0.0.0.0:33808",
                Beacons.SEND,
                64512,
                ("all",),
                (Neighbour("192.0.2.1:5000", B, "password-of-b", "login-b", "b"),),
            ),
            Udp("[::]:33808", neighbours=(Neighbour("[2001:db8::3]:5000", C, "password-of-c"),)),
        ),
        ethernet=(Ethernet("eth1", Beacons.ACCEPT, (Neighbour("02:02:03:04:05:0a", B, "password-of-b"),)),),
        admin=Admin("127.0.0.1:11234"),
        tun="tun0",
    )


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("privateKey", '    "privateKey"'),
        ("admin.password", '"password": "NONE"'),
        ("interfaces.UDPInterface.0.dscp", '"dscp": 46'),
        ("interfaces.UDPInterface.1.connectTo.[2001:db8:0::3]:5000.contact", '"contact"'),
        ("interfaces.ETHInterface.0.bind", '"bind": "all"'),
        ("router.dnsSeeds", '"dnsSeeds"'),
        ("security", '"security"'),
        ("logging", '"logging"'),
        ("pipe", '"pipe"'),
    ],
)
def test_each_setting_that_is_not_imported_is_named_with_its_line(field: str, line: str) -> None:
    (told,) = (line for line in cjdroute_file.load(SAMPLE).ignored if f": {field}: " in line)
    number = int(told.removeprefix(f"{SAMPLE}:").partition(":")[0])
    assert line in SAMPLE.read_text().splitlines()[number - 1]


def test_the_text_is_the_one_that_overlayd_reads() -> None:
    """The imported text equals the sample that overlayd's own tests read."""
    conf = cjdroute_file.load(SAMPLE).imported.conf
    expected = SAMPLE.with_name("overlayd.toml").read_text()
    assert overlayd.render(conf, "/var/lib/meshsec/node.key", "Written by `meshsec import`.") == expected


def test_every_other_setting_is_imported() -> None:
    assert len(cjdroute_file.load(SAMPLE).ignored) == 9


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 0, "is empty"),
        ('{\n "a": 1\n "b": 2\n}', 3, "Unexpected"),
        ("{", 1, "Unexpected end of input"),
        ("# shell", 1, "Unexpected"),
        ('{"a": {"b": 1,\n "b": 2}}', 2, "a.b: is there twice"),
        (r'{"a": {"b": "\ud800"}}', 1, "a.b: has one half of a surrogate pair"),
        (r'{"a": {"\udc00": 1}}', 1, "a: has one half of a surrogate pair"),
        ('{"admin": {\n/* " */ "bind": 7}}', 2, "admin.bind: 7 is not allowed"),
        ("{// c\n'admin': {bind: \"x\",\n\n}}", 2, "admin.bind: 'x' is not allowed"),
        ('{"interfaces": {"UDPInterface": [\n{"bind": "0.0.0.0:1"},\n{}]}}', 3, "UDPInterface.1.bind: is missing"),
        ("[1,\n2]", 1, "is no object"),
        ("[" * 5000, 0, "too many brackets"),
    ],
)
def test_a_refusal_names_the_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    path = tmp_path / "cjdroute.conf"
    message = refused(path, text)
    assert message.startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert told in message


def test_a_file_that_is_too_long_or_missing_is_refused(tmp_path: Path) -> None:
    assert "is longer than" in refused(tmp_path / "long", f'{{"a": "{"x" * 70000}"}}')
    with pytest.raises(CjdrouteError, match="No such file"):
        cjdroute_file.load(tmp_path / "absent")


def test_a_character_that_json_escapes_in_two_halves_is_one(tmp_path: Path) -> None:
    path = tmp_path / "cjdroute.conf"
    path.write_text(r'{"authorizedPasswords": [{"password": "\ud83d\ude00"}]}')
    assert cjdroute_file.load(path).imported.conf.users == (User("\U0001f600"),)
