"""The image's root: Debian 13 by mmdebstrap, then what makes it a vehicle's."""

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from image import raspberry
from image.architecture import Architecture
from image.shell import StepError, inside, run

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SUITE = "trixie"
PYTHON = "3.13"
COMPONENTS = "main non-free-firmware"

PACKAGES = (
    *("systemd-sysv", "systemd-repart", "udev", "dbus", "libnss-systemd", "login"),
    *("initramfs-tools", "zstd", "busybox", "kmod", "e2fsprogs", "systemd-boot-efi"),
    *("charon-systemd", "strongswan-swanctl", "libstrongswan-standard-plugins", "libstrongswan-extra-plugins"),
    *("libcharon-extra-plugins", "iproute2", "nftables", "iputils-ping", "procps"),
    *("iw", "wpasupplicant", "wireless-regdb", "firmware-ath9k-htc", "chrony", "python3", "libsodium23"),
    *("python3-cryptography", "dnsmasq-base", "hostapd", "zxing-cpp-tools"),
    *("libtss2-esys-3.0.2-0t64", "libtss2-rc0t64", "libtss2-tcti-device0t64"),
    *("systemd-container", "gpg", "dosfstools"),
)

_NO_TEXTS = (
    *("path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/info/*"),
    *("path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright"),
)

_MASKED = (
    *("debug-shell.service", "systemd-firstboot.service", "systemd-hwdb-update.service"),
    *("systemd-journal-catalog-update.service", "systemd-networkd-wait-online.service", "ldconfig.service"),
    *("systemd-rfkill.service", "systemd-rfkill.socket", "systemd-binfmt.service", "systemd-sysext.socket"),
    *("proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount", "sys-kernel-debug.mount"),
    "sys-kernel-tracing.mount",
)
"""What would only wait, write to a root that is read-only, or show the kernel's insides."""

_LEFT_OUT = ("boot", "initrd.img", "initrd.img.old", "vmlinuz", "vmlinuz.old")
"""The kernel is started from the first partition."""

_TEXTS = ("man", "zsh", "fish", "doc/meshsec/README.md", "doc/meshsec/CHANGELOG.md", "doc/meshsec/docs")
"""Below /usr/share: nobody reads them on a vehicle."""
MOUNTED = ("efi", "etc/meshsec", "etc/olsrv2d", "etc/overlayd")
"""What of the root comes from elsewhere at run time."""

LINKS = {"etc/resolv.conf": "/run/systemd/resolve/resolv.conf", "etc/hosts": "/var/lib/node/names/hosts"}
"""What of ``/etc`` is made at each boot, or changes: tmpfiles.d makes the targets."""


@dataclass(frozen=True)
class Mirrors:
    """Where Debian 13 comes from."""

    archive: str
    security: str | None

    def sources(self) -> list[str]:
        """Lines of sources.list."""
        lines = [f"deb {self.archive} {suite} {COMPONENTS}" for suite in (SUITE, f"{SUITE}-updates")]
        return lines + ([f"deb {self.security} {SUITE}-security {COMPONENTS}"] if self.security else [])


def mirrors() -> Mirrors:
    """This machine's own, since those are the ones that it can reach; raises StepError where apt knows none."""
    known = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()
    archive = next((uri for uri in known if re.search(r"/debian/?$", uri)), None)
    if archive is None:
        raise StepError(f"no Debian archive in this machine's apt sources, only: {' '.join(sorted(set(known)))}")
    return Mirrors(archive, next((uri for uri in known if re.search(r"/debian-security/?$", uri)), None))


def base_key(kernel: Path | None, wanted: Architecture) -> str:
    """Changes when the base has to be made again."""
    kernel_key = _digest(kernel) if kernel else wanted.kernel_package
    text = "\n".join((SUITE, COMPONENTS, wanted.debian, kernel_key, *PACKAGES, *_NO_TEXTS, *raspberry.hooks(wanted)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_base(target: Path, kernel: Path | None, wanted: Architecture) -> None:
    """Bootstrap Debian into ``target``, which appears when it is complete; one that is there stays until then."""
    fresh = target.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.parent.mkdir(parents=True, exist_ok=True)
    packages = PACKAGES if kernel else (*PACKAGES, wanted.kernel_package)
    hooks = list(raspberry.hooks(wanted))
    if kernel:
        # Its postinst, unlike Debian's, cannot be configured so that it makes no initramfs yet.
        hook = "$1/etc/kernel/postinst.d/initramfs-tools"
        hooks += [
            f'--customize-hook=chmod a-x "{hook}"',
            f'--customize-hook=cp "{kernel.resolve()}" "$1/kernel.deb"',
            '--customize-hook=chroot "$1" dpkg -i /kernel.deb',
            f'--customize-hook=rm "$1/kernel.deb"; chmod a+x "{hook}"',
        ]
    run(
        [
            # It may leave /proc mounted (seen with an arm64 root), which the mounts of its own end.
            *("unshare", "--mount", "--propagation", "private"),
            *("mmdebstrap", "--mode=root", "--variant=essential", '--aptopt=Apt::Install-Recommends "false"'),
            f"--architectures={wanted.debian}",
            *(f"--dpkgopt={option}" for option in _NO_TEXTS),
            *(f"--include={','.join(packages)}", *hooks, SUITE, str(fresh), *mirrors().sources()),
        ],
        env={"INITRD": "No"},  # it is made once, of the finished root
    )
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def finish(root: Path, epoch: int, wanted: Architecture, programs: Path) -> str:
    """Make the copy ``root`` of a base a vehicle's root; the kernel's release."""
    _install_meshsec(root, wanted, programs)
    run(["rm", "-rf", *(root / "usr/share" / name for name in _TEXTS)])
    shutil.copytree(HERE / "files", root, dirs_exist_ok=True, symlinks=True)
    for folder in MOUNTED:
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy2(REPOSITORY / "docs" / "guide" / "vehicle-image.md", root / "usr/share/doc/meshsec")
    inside(root, ["systemd-sysusers"])
    inside(root, ["passwd", "--lock", "root"])
    shutil.rmtree(root / "etc/systemd/system")
    (root / "etc/systemd/system").mkdir()
    inside(root, ["systemctl", "preset-all"])
    inside(root, ["systemctl", "mask", *_MASKED])
    inside(root, ["systemctl", "set-default", "multi-user.target"])
    inside(root, ["systemd-hwdb", "--usr", "update"])
    release = kernel_release(root)
    inside(root, ["update-initramfs", "-c", "-k", release], env={"SOURCE_DATE_EPOCH": str(epoch)})
    return release


def seal(root: Path, kept: Path) -> None:
    """Move what the kernel's partition holds to ``kept``, and take out what would differ or only fills space."""
    shutil.rmtree(kept, ignore_errors=True)
    shutil.move(root / "boot", kept)
    for name in _LEFT_OUT:
        (root / name).unlink(missing_ok=True)
    (root / "boot").mkdir()
    for content in (root / "var").iterdir():  # comes from the state partition
        if content.is_symlink() or not content.is_dir():
            content.unlink()
        else:
            shutil.rmtree(content)
    for name in (*LINKS, "etc/machine-id", "etc/.pwd.lock", "etc/passwd-", "etc/shadow-", "etc/group-"):
        (root / name).unlink(missing_ok=True)
    # Empty, not absent: no boot is a "first boot" to systemd, and the identity comes from the firmware.
    (root / "etc/machine-id").touch()
    for name, target in LINKS.items():
        (root / name).symlink_to(target)


def kernel_release(root: Path) -> str:
    """Return the one kernel in ``root``; raises StepError when there is none or more."""
    releases = sorted(path.name for path in (root / "usr/lib/modules").iterdir())
    if len(releases) != 1:
        raise StepError(f"one kernel is wanted in the image, found: {' '.join(releases) or 'none'}")
    return releases[0]


def packages(root: Path) -> str:
    """Return what is installed, for the list beside the image."""
    return run(["dpkg-query", "--admindir", root / "var/lib/dpkg", "-W"])


def _install_meshsec(root: Path, wanted: Architecture, programs: Path) -> None:
    """Install meshsec for the image's Python, by the same script as on any other machine."""
    target = {"TARGET_PYTHON": PYTHON, "TARGET_MACHINE": wanted.machine, "PROGRAMS": str(programs)}
    run([REPOSITORY / "tools/install"], env={"PREFIX": "/usr", "DESTDIR": str(root), **target}, cwd=REPOSITORY)
    compiled = ("/usr/lib/meshsec", f"/usr/lib/python{PYTHON}", "/usr/lib/python3/dist-packages")
    inside(root, ["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *compiled])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
