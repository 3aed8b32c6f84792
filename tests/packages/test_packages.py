"""Our Debian packages can be installed, upgraded, removed and purged in a bare root, and lintian finds no error.

Runs for this machine's release and architecture where we package for it, and for all of them where
``MESHSEC_PACKAGES_ALL`` is set (``make packages-all``).
"""

import gzip
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from meshsec.adapters.files import replaced_units, secret_file
from meshsec.adapters.files.replaced_units import Was
from meshsec.core.formats import hosts as named
from tests.lab.basics import shell
from tests.lab.basics.places import REPOSITORY
from tests.lab.machines import fleet_root
from tests.packages import archive
from tests.packages.made import ALL, KERNEL, OWN_ARCHITECTURE, PACKAGES, made
from tests.packages.root import Root, bare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

UNITS = ("meshsec-firewall.service", "meshsec-ike.service", "meshsecd.service", "meshsec.target", "olsrv2d.service")
KEY = "/var/lib/meshsec/node.key"
ROUTER = "/etc/olsrv2d/olsrv2d.toml"
NOTES = "/etc/meshsec/peers/notes.txt"
CONFIG = "/etc/meshsec/meshsec.toml"
RECORD = "/var/lib/meshsec/.replaced-units.json"
RIVAL = "multi-user.target.wants/strongswan.service"
"""The link that starts Debian's IKE daemon with the machine."""
LATER = "99"
KERNEL_FILE = re.compile(r"linux-image-[0-9.]+.*-rt-amd64_")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
"""A link to another file in Markdown."""
MACHINES = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}


def test_the_life_of_packages_on_a_node(root: Root, packages: dict[str, Path], tmp_path: Path) -> None:
    """All steps use one root, because each takes its time."""
    root.apt("install", "charon-systemd")
    debians = _units(root)
    assert RIVAL in debians, "Debian's IKE daemon starts with the machine"
    root.apt("install", *PACKAGES)
    _check_installed(root)
    _check_documents(root)
    _check_notices(root)
    _check_cryptography(root)
    _check_completion(root)
    kept = _configure(root)
    root.offer(_renumbered(package, tmp_path / "later") for package in packages.values())
    root.apt("upgrade")
    _check_upgraded(root, kept, f"{LATER}:{_version(packages['meshsec'])}")
    hosts = root.path("/etc/hosts")
    hosts.write_bytes(named.joined(before := b"127.0.0.1 localhost\n", ["fc00::2 b.mesh"]))
    _disable_rival(root)
    root.apt("remove", *PACKAGES)
    assert RIVAL in _units(root), "what `meshsec up` disabled is enabled again"
    assert not root.path(RECORD).exists()
    assert hosts.read_bytes() == before, "the names of nodes go with what keeps them"
    assert {name: root.path(name).read_bytes() for name in kept} == kept
    assert not root.path("/usr/lib/meshsec").exists(), "byte code goes with what it was made of"
    root.apt("purge", *PACKAGES)
    # The group stays, as is usual in Debian, so that no later one gets its number.
    left = root.named("meshsec", "olsrv2d", "overlayd", "node.key", "node.pub")
    assert left == {"/var/lib/meshsec", KEY, "/var/lib/meshsec/node.pub"}, (
        "a purge keeps the identity, and nothing else"
    )
    root.apt("install", "meshsec")
    root.run("meshsec", "init", "--name", "again", "--interface", "mesh0")
    assert root.path(KEY).read_bytes() == kept[KEY], "what comes again is the same node"
    _check_uninstalled(root, debians, before)
    _check_sealed(root)


def test_lintian_finds_no_error(release: str, packages: dict[str, Path]) -> None:
    """Each override has its reason in daemon/debian."""
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    (changes,) = packages["meshsec"].parent.glob("*.changes")
    said = shell.run(["lintian", "--allow-root", "--info", str(changes)], check=False, timeout=600)
    assert said.returncode == 0, f"{release}: {said.stdout}{said.stderr}"
    assert not re.search(r"(?m)^E: ", said.stdout), said.stdout


def test_a_kernel_of_ours_is_followed_by_its_metapackage(packages: dict[str, Path]) -> None:
    """It depends on that very version, so that a later kernel comes as an upgrade."""
    (image,) = packages["meshsec"].parent.glob(f"meshsec-image_9.9-1_{OWN_ARCHITECTURE}.deb")
    fields = shell.run(["dpkg-deb", "--field", str(image), "Version", "Depends"]).stdout
    assert fields == f"Version: 9.9-1\nDepends: {KERNEL} (= 9.9-1)\n"
    assert (image.parent / "kernel.deb").exists(), "the kernel is beside it"


@pytest.mark.skipif(not ALL, reason="kernels are fetched with `make packages-all` only")
def test_a_kernel_comes_by_its_metapackage_and_a_later_one_beside_it(tmp_path: Path) -> None:
    """The kernels are Debian's RT kernels of two releases, which are made as ours are."""
    if missing := fleet_root.obstacle():
        pytest.skip(missing)
    needed = ["linux-image-rt-amd64", "initramfs-tools"]
    fetched = [archive.fetched(suite, needed, tmp_path / suite) for suite in ("bookworm", "trixie")]
    older, newer = (next(one for one in packages if KERNEL_FILE.match(one.name)) for packages in fetched)
    with bare("trixie", tmp_path / "root") as root:
        for number, kernel in enumerate((older, newer)):
            made("trixie", "amd64", tmp_path / str(number), {"KERNEL": str(kernel)})
            image = next((tmp_path / str(number)).glob("meshsec-image_*_amd64.deb"))
            root.offer([image, kernel, *fetched[1]])
            root.apt(*(("upgrade", "--with-new-pkgs") if number else ("install", "meshsec-image")))
            assert _release_of(kernel) in _bootable(root)
        assert _bootable(root) == {_release_of(older), _release_of(newer)}
        root.apt("purge", _name(older))
        assert _bootable(root) == {_release_of(newer)}
        assert root.run("dpkg-query", "-W", "-f=${Status}", "meshsec-image").stdout == "install ok installed"


@pytest.mark.skipif(not ALL, reason="compiled across with `make packages-all` only")
@pytest.mark.parametrize("architecture", sorted(MACHINES))
def test_programs_and_wheels_are_those_of_the_architecture(release: str, architecture: str, tmp_path: Path) -> None:
    """Each program and wheel is checked by its ELF header."""
    tree = tmp_path / "tree"
    for package in made(release, architecture, tmp_path / "packages").values():
        shell.run(["dpkg-deb", "-x", str(package), str(tree)])
    files = [tree / "usr/bin/olsrv2d", tree / "usr/bin/olsrv2-signer", tree / "usr/bin/overlayd", *tree.rglob("*.so")]
    assert len(files) > 3
    for file in files:
        header = shell.run(["readelf", "--file-header", str(file)]).stdout
        assert MACHINES[architecture] in header, file


def test_an_unknown_release_or_architecture_is_named() -> None:
    """It is named before anything is built."""
    usages = {"deb": "bookworm|trixie amd64|arm64|armhf", "cross": "amd64|arm64|armhf"}
    bad = {"deb": (["sid", "amd64"], ["trixie", "s390x"], ["trixie"]), "cross": (["s390x"], ["amd64", "arm64"])}
    for tool, usage in usages.items():
        for words in bad[tool]:
            done = subprocess.run([REPOSITORY / "tools" / tool, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 2
            assert done.stderr == f"{tool}: usage: tools/{tool} {usage}, not: {' '.join(words)}\n"


def _name(package: Path) -> str:
    return shell.run(["dpkg-deb", "-f", str(package), "Package"]).stdout.strip()


def _release_of(kernel: Path) -> str:
    return _name(kernel).removeprefix("linux-image-")


def _bootable(root: Root) -> set[str]:
    """Return the releases of the kernels that have their modules and an initramfs."""
    found = {path.name.removeprefix("vmlinuz-") for path in root.path("/boot").glob("vmlinuz-*")}
    for kernel in found:
        assert root.path(f"/boot/initrd.img-{kernel}").stat().st_size > 1_000_000
        assert root.path(f"/lib/modules/{kernel}/modules.dep").exists()
    return found


def _version(package: Path) -> str:
    return shell.run(["dpkg-deb", "-f", str(package), "Version"]).stdout.strip()


def _renumbered(package: Path, directory: Path) -> Path:
    """Return the same package with a later version."""
    directory.mkdir(exist_ok=True)
    tree = directory / package.stem
    shell.run(["dpkg-deb", "-R", str(package), str(tree)], timeout=120)
    control = tree / "DEBIAN/control"
    text = control.read_text(encoding="utf-8")
    control.write_text(re.sub(r"(?m)^Version: ", f"Version: {LATER}:", text), encoding="utf-8")
    later = directory / package.name
    shell.run(["dpkg-deb", "-Zgzip", "-z1", "-b", str(tree), str(later)], timeout=300)
    shutil.rmtree(tree)
    return later


def _configure(root: Root) -> dict[str, bytes]:
    """Do what the quick start says. Return the operator's files."""
    root.run("meshsec", "init", "--name", "alpha", "--interface", "mesh0")
    card = root.run("meshsec", "key", "show").stdout
    root.path(NOTES).write_text(card, encoding="utf-8")
    root.path(ROUTER).write_text('originators = ["fd00::1"]\n', encoding="utf-8")
    root.run("systemctl", "enable", "meshsec.target")
    names = (CONFIG, KEY, NOTES, ROUTER)
    return {name: root.path(name).read_bytes() for name in names}


def _units(root: Root) -> set[str]:
    """Return what is in systemd's directory of the operator's."""
    place = root.path("/etc/systemd/system")
    return {str(path.relative_to(place)) for path in place.rglob("*")}


def _disable_rival(root: Root) -> None:
    """Do what `meshsec up` does about Debian's IKE daemon. It needs a running systemd, which is not here."""
    replaced_units.add(root.path("/var/lib/meshsec"), {"strongswan.service": Was(enabled=True, active=True)})
    root.run("systemctl", "disable", "strongswan.service")
    assert RIVAL not in _units(root)


def _check_uninstalled(root: Root, debians: set[str], hosts: bytes) -> None:
    """Check that `meshsec uninstall` and a purge leave only the identity, and Debian's IKE daemon as it was."""
    root.path("/etc/hosts").write_bytes(named.joined(hosts, ["fc00::2 b.mesh"]))
    gateway = root.path("/etc/systemd/system/meshsecd.service.d")
    root.run("meshsec", "export", "systemd", "--into", "/etc/systemd/system")
    assert gateway.is_dir()
    _disable_rival(root)
    root.run("meshsec", "uninstall")
    assert gateway.is_dir(), "without --yes it only says"
    done = root.run("meshsec", "uninstall", "--yes").stdout
    assert "done: systemctl enable strongswan.service\n" in done
    assert _units(root) == debians
    assert root.path("/etc/hosts").read_bytes() == hosts
    root.apt("purge", "meshsec")
    assert _units(root) == debians
    assert root.named("meshsec", "olsrv2d", "overlayd") == {"/var/lib/meshsec"}


def _check_sealed(root: Root) -> None:
    """Check that a purge keeps a sealed key. No TPM is here, so the files have the form that sealing gives them."""
    root.apt("install", "meshsec")
    key = root.path(KEY)
    sealed, link = key.with_name("node.key.sealed"), secret_file.OPENED / key.name
    content = key.read_bytes()
    key.rename(sealed)
    key.symlink_to(link)
    done = root.run("apt-get", "-q", "-y", "purge", "meshsec")
    assert "identity stays in /var/lib/meshsec" in done.stdout + done.stderr
    assert key.readlink() == link
    assert sealed.read_bytes() == content
    assert {path.name for path in key.parent.iterdir()} == {"node.key", "node.key.sealed", "node.pub"}


def _check_installed(root: Root) -> None:
    """Check that all programs run, and that nothing was made, started or enabled."""
    for program in ("meshsec", "olsrv2d", "olsrv2-signer", "overlayd"):
        assert root.run(program, "--version").stdout.startswith(f"{program} "), program
    for program in ("meshsecd", "meshsec-page", "meshsec-radio"):
        assert root.run(program, "--help").stdout.startswith("Usage: "), program
    assert root.run("dpkg", "--verify", *PACKAGES).stdout == ""
    assert root.run("getent", "group", "meshsec").stdout.startswith("meshsec:")
    assert root.run("getent", "group", "olsrv2-signer").stdout.startswith("olsrv2-signer:")
    for unit in UNITS:
        assert root.run("systemctl", "is-enabled", unit, check=False).stdout.strip() == "disabled", unit
    assert root.path("/usr/lib/meshsec/meshsec/__pycache__").is_dir(), "byte code is made at installation"
    assert not root.path(CONFIG).exists(), "an operator's act, not the package's"
    assert not root.path(KEY).exists(), "an operator's act, not the package's"
    _check_modes(root)
    _check_scripts(root)


def _check_documents(root: Root) -> None:
    """Check that each link between the documents leads to a file, except for those to developers' documents."""
    place = root.path("/usr/share/doc/meshsec")
    documents = [place / "README.md", place / "SECURITY.md", *(place / "docs").rglob("*.md")]
    assert len(documents) > 20
    for document in documents:
        for link in LINK.findall(document.read_text(encoding="utf-8")):
            target = (document.parent / link).resolve()
            name = f"{target.relative_to(place)}/" if target.is_relative_to(place) else ""
            assert target.exists() or not name.startswith("docs/") or name.startswith("docs/development/"), (
                document,
                link,
            )


def _check_notices(root: Root) -> None:
    """Check that each program comes with the notices of exactly the crates that it contains."""
    contents = {"olsrv2d": ["clap", "ed25519-dalek", "serde"], "overlayd": ["clap", "curve25519-dalek", "zeroize"]}
    for program, crates in contents.items():
        place = root.path(f"/usr/share/doc/meshsec-{program}/crate-notices.gz")
        text = gzip.decompress(place.read_bytes()).decode()
        for crate in crates:
            assert re.search(rf"^  {crate} [0-9.]+: ", text, re.MULTILINE), crate
        assert "Permission is hereby granted" in text
        assert not re.search(r"^  (serde_derive|proptest) ", text, re.MULTILINE), "not linked"


def _check_cryptography(root: Root) -> None:
    """Check that keys are made and used with Debian's OpenSSL, which gets its security updates."""
    assert not list(root.path("/usr/lib/meshsec").glob("*crypt*"))
    place = root.run("python3", "-c", "import cryptography; print(cryptography.__file__)").stdout
    assert place.startswith("/usr/lib/python3/dist-packages/")
    card = root.run("meshsec", "fleet", "init", "rescue", "--directory", "/root/office").stdout
    assert "meshsec-fleet1:" in card


def _check_completion(root: Root) -> None:
    """Check that Debian's zsh finds the function by itself."""
    root.apt("install", "zsh")
    script = "autoload -U compinit; compinit -D; print $_comps[meshsec]"
    assert root.run("zsh", "-fc", script).stdout == "_meshsec\n"


def _check_upgraded(root: Root, kept: dict[str, bytes], version: str) -> None:
    """Check that the version has changed and the operator's files have not, including the key's mode."""
    installed = root.run("dpkg-query", "-W", "-f=${Version}\n", *PACKAGES).stdout.split()
    assert installed == [version] * len(PACKAGES)
    assert {name: root.path(name).read_bytes() for name in kept} == kept
    assert stat.S_IMODE(root.path(KEY).stat().st_mode) == 0o600
    assert root.run("systemctl", "is-enabled", "meshsec.target").stdout.strip() == "enabled"
    assert root.run("meshsec", "key", "show").stdout.encode() == kept[NOTES]


def _check_scripts(root: Root) -> None:
    """Check dpkg's scripts, because no systemd runs here: they restart in an upgrade, and stop nothing before it."""
    scripts = root.path("/var/lib/dpkg/info")
    restarted = {name: (scripts / f"{name}.postinst").read_text(encoding="utf-8") for name in PACKAGES}
    services = {
        name: " ".join(re.findall(r"deb-systemd-invoke try-restart ([^\n]*) >", text)).replace("'", "").split()
        for name, text in restarted.items()
    }
    ours = [f"meshsec-{name}.service" for name in ("dns-sd", "names", "page", "zeroize")] + ["meshsecd.service"]
    routers = ["olsrv2-signer.service", "olsrv2d.service"]
    assert services == dict(zip(PACKAGES, (ours, routers, ["overlayd.service"]), strict=True))
    assert "deb-systemd-invoke start meshsec-names.service meshsec-page.service" in restarted["meshsec"]
    assert not list(scripts.glob("meshsec*.preinst"))


def _check_modes(root: Root) -> None:
    """Check that all files are root's, nobody else can write them, and none is setuid."""
    listing = root.run("dpkg", "--listfiles", *PACKAGES).stdout.split("\n")
    ours = [name for name in listing if "meshsec" in name or "olsrv2d" in name or "overlayd" in name]
    assert len(ours) > 500
    for name in ours:
        status = root.path(name).lstat()
        assert (status.st_uid, status.st_gid) == (0, 0), name
        assert stat.S_ISLNK(status.st_mode) or not status.st_mode & 0o7022, name
