"""Further versions of the built image, as `make image` would make them: of the same root, with small changes.

They trust a key of the test's own, so that the test does not depend on the key that the image was built with.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from image import disk, release, update
from image.root import kernel_release
from image.shell import run
from tests.lab.machines.image_disk import Signed, signed
from tests.lab.machines.vehicle import board

Change = Callable[[Path], None]
_SECTOR = 512


def _keep(tree: Path) -> None:
    """Change nothing in a root."""


def make_key(directory: Path) -> Path:
    """Make an OpenPGP key and return the file that has it."""
    ring, file = directory / "ring", directory / "key"
    ring.mkdir(mode=0o700, parents=True)
    environment = {"GNUPGHOME": str(ring)}
    made = [
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        "--quick-generate-key",
        "image test",
        "ed25519",
        "sign",
        "never",
    ]
    run(["gpg", "--batch", "--quiet", *made], env=environment)
    run(["gpg", "--batch", "--quiet", "--output", file, "--export-secret-keys"], env=environment)
    file.chmod(0o600)
    run(["gpgconf", "--kill", "all"], env=environment)
    return file


class Versions:
    """Takes the built image apart, and puts versions of it together."""

    def __init__(self, directory: Path, key: Path) -> None:
        self._directory, self._key = directory, key
        self._wanted, self._built = board().architecture, board().image
        self.tree, self._boot = directory / "tree", directory / "boot"
        directory.mkdir(parents=True)
        with release.key(key) as signer:
            assert signer is not None
            self._made = signer.created
        _take_root(self._built, directory / "built.erofs", self.tree)
        self._kernel = kernel_release(self.tree)
        self._take_kernel()

    def signed(self, version: str) -> Signed:
        """Return what the files of a version that was made must be."""
        return signed(self._directory / version)

    def make_disk(self, version: str) -> Path:
        """Make the disk of a version, as it is written to a machine, and its update."""
        update = self.make_update(version)
        identity = self._identity(version)
        (root,), (kernel,) = update.glob("*.root"), update.glob("*.efi")
        esp, target = self._directory / "esp.fat", self._directory / f"{version}.img"
        disk.make_esp(disk.loader(self.tree, self._wanted), kernel, esp, identity, self._wanted, update)
        disk.assemble(esp, root, target, identity, self._wanted)
        return target

    def make_update(self, version: str, change: Change = _keep) -> Path:
        """Make the signed update to a version whose root ``change`` has changed."""
        identity, root, kernel = self._make(version, change)
        target = self._directory / version
        files = {
            release.root_name(version, identity.uuid("root"), self._wanted): root,
            release.kernel_name(version, self._wanted): kernel,
        }
        with release.key(self._key) as signer:
            assert signer is not None
            release.make_update(files, target, signer)
        return target

    def _make(self, version: str, change: Change = _keep) -> tuple[disk.Identity, Path, Path]:
        tree, root, kernel = (self._directory / name for name in ("changed", "root.erofs", "uki.efi"))
        shutil.rmtree(tree, ignore_errors=True)
        # Hard links: what is changed is replaced, not written to.
        run(["cp", "--archive", "--link", self.tree, tree])
        _replace(
            tree / "usr/lib/os-release", lambda text: re.sub("(?m)^IMAGE_VERSION=.*$", f"IMAGE_VERSION={version}", text)
        )
        with release.key(self._key) as signer:
            assert signer is not None
            (tree / update.KEYRING).unlink(missing_ok=True)
            (tree / update.KEYRING).write_bytes(signer.public)
        change(tree)
        identity = self._identity(version)
        disk.make_erofs(tree, root, identity)
        disk.make_uki(tree, self._boot, self._kernel, kernel, identity, self._wanted)
        return identity, root, kernel

    def _identity(self, version: str) -> disk.Identity:
        return disk.Identity(hashlib.sha256(version.encode()).hexdigest()[:16], self._made, version)

    def _take_kernel(self) -> None:
        self._boot.mkdir()
        whole = self._directory / "built.efi"
        esp = f"{self._built}@@{disk.MIB}"
        (found,) = re.findall(r"meshsec_\S+\.efi", run(["mdir", "-b", "-i", esp, "::EFI/Linux"]))
        run(["mcopy", "-i", esp, f"::EFI/Linux/{Path(found).name}", whole])
        for section, name in ((".linux", f"vmlinuz-{self._kernel}"), (".initrd", f"initrd.img-{self._kernel}")):
            objcopy = self._wanted.binutils("objcopy")
            run([objcopy, "--output-target=binary", f"--only-section={section}", whole, self._boot / name])


def _take_root(image: Path, file: Path, tree: Path) -> None:
    table = json.loads(run(["sfdisk", "--json", image]))["partitiontable"]["partitions"]
    (root,) = [one for one in table if one["name"].startswith("meshsec_")]
    at = [f"skip={root['start'] * _SECTOR}", f"count={root['size'] * _SECTOR}", "iflag=skip_bytes,count_bytes"]
    run(["dd", f"if={image}", f"of={file}", "bs=4M", "conv=sparse", "status=none", *at])
    run(["fsck.erofs", f"--extract={tree}", file])
    file.unlink()


def _replace(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text(encoding="utf-8")
    path.unlink()
    path.write_text(change(text), encoding="utf-8")


def packed(directory: Path, target: Path) -> Path:
    """Return a disk whose only file system has the content of a directory."""
    target.unlink(missing_ok=True)
    subprocess.run(["mkfs.erofs", "--quiet", target, directory], check=True)
    return target
