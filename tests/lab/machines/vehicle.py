"""A vehicle: the image of `make image` in a QEMU machine with UEFI, its serial console, its one mesh interface.

Machines are emulated (TCG) as the guest is. Two of them share a link: UDP between their QEMUs in a network namespace
that lives as long as the link. One may be cut from its power and come back; what each sends and receives is captured.
"""

import base64
import fcntl
import os
import re
import shlex
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from image.architecture import AMD64, ARM64, Architecture
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import disk_log
from tests.lab.machines.disk_log import Log
from tests.lab.net.packets import SNAPLEN, Classifier, Kind

INTERFACE = "enp0s16"
_SLOT = 0x10
"""The interface's slot, from which its name follows."""


@dataclass(frozen=True)
class Board:
    """What QEMU emulates for an image of one architecture."""

    architecture: Architecture
    image: Path
    qemu: tuple[str, ...]
    cpu: str
    firmware: Path
    variables: Path


_IMAGES = REPOSITORY / "build" / "image"
_BOARDS = {
    "amd64": Board(
        AMD64,
        _IMAGES / "meshsec.img",
        ("qemu-system-x86_64", "-M", "q35,accel=tcg"),
        "max",
        Path("/usr/share/OVMF/OVMF_CODE_4M.fd"),
        Path("/usr/share/OVMF/OVMF_VARS_4M.fd"),
    ),
    "arm64": Board(
        ARM64,
        _IMAGES / "arm64" / "meshsec.img",
        ("qemu-system-aarch64", "-M", "virt,accel=tcg,gic-version=3"),
        "max,pauth-impdef=on",  # Pointers are signed by a cheap hash: that of the standard takes half of the processor.
        Path("/usr/share/AAVMF/AAVMF_CODE.fd"),
        Path("/usr/share/AAVMF/AAVMF_VARS.fd"),
    ),
}
_MEMORY_MIB = 1024
_PATIENCE = "systemd.default_device_timeout_sec=900 systemd.default_timeout_start_sec=900"
"""Seconds: an emulated machine waits for its disk longer than a vehicle's ever does."""
RADIOS = "modules_load=mac80211_hwsim mac80211_hwsim.radios=2"
"""The kernel argument that simulates the radios wlan0 and wlan1, which hear each other."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?=]*[A-Za-z]|[()][A-Z0-9]|[cM=>78])|\x1b\][^\x07]*\x07|\r")


def architecture() -> str:
    """Return whose image is booted: what `make image-boot ARCH=...` says."""
    return os.environ.get("MESHSEC_IMAGE_BOOT", "amd64")


def board() -> Board:
    """Return the machine for that image."""
    return _BOARDS[architecture()]


def obstacle() -> str | None:
    """Return why no image is to be booted, or cannot be, or None."""
    if not {"MESHSEC_IMAGE_BOOT", "MESHSEC_IMAGE_CUTS"} & os.environ.keys():
        return "an image is built and booted by `make image-boot` only: that takes minutes"
    if architecture() not in _BOARDS:
        return f"ARCH={architecture()}: there is no such image; allowed: {', '.join(_BOARDS)}"
    wanted = board()
    if not wanted.image.exists():
        return f"no image is built: `make image ARCH={architecture()}`"
    if shutil.which(wanted.qemu[0]) is None or not wanted.firmware.exists():
        return f"{wanted.qemu[0]} or its UEFI firmware is not installed: `tools/setup image`"
    return None


class Console:
    """A vehicle's serial console: its output, and what is typed there."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        # A thread reads it, because a full pipe would stop the machine while the test waits for the other console.
        fcntl.fcntl(self._output, fcntl.F_SETPIPE_SZ, 1 << 20)
        self._log = log.open("ab")
        self._said = b""

    @property
    def text(self) -> str:
        """Return all output so far, without the escape sequences of terminals."""
        return _ESCAPES.sub("", self._said.decode(errors="replace"))

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is output."""
        return self._output.fileno()

    def drain(self) -> bool:
        """Read what is available; return False after the end."""
        said = self._output.read1(65536)  # type: ignore[attr-defined]
        self._said += said
        self._log.write(said)
        self._log.flush()
        return bool(said)

    def type(self, text: str) -> None:
        """Type text as a person would."""
        self._input.write(text.encode())
        self._input.flush()

    def wait(self, pattern: str, seconds: float, after: int = 0) -> re.Match[str]:
        """Wait for ``pattern`` after the position ``after`` of ``text``, and return its first match."""
        return wait_until(
            f"{pattern!r} on the console",
            lambda: re.compile(pattern, re.MULTILINE).search(self.text, after),
            [self],
            seconds,
            last=lambda: self.text[-2000:],
        )

    def close(self) -> None:
        """Read the remaining output and close the console."""
        while self.drain():
            pass
        self._log.close()


class Link:
    """A namespace without a name, in which only the vehicles' frames pass the loopback interface."""

    def __enter__(self) -> Self:
        script = "ip link set lo up && echo up && exec cat"
        self._holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-ec", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n", "no network namespace"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.communicate()

    def within(self) -> list[str]:
        """Return the words in front of a program that is to run there."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]


class Vehicle:
    """One machine. Its disk is a copy of the image and keeps what is written from one start to the next."""

    def __init__(self, name: str, link: Link, directory: Path, logs: Path, image: Path | None = None) -> None:
        self.name = name
        self._link = link
        self._directory = directory
        self._logs = logs
        self.disk = directory / f"{name}.img"
        """It is read while the machine runs only to see whether something has happened."""
        self.is_logged = False
        """From the next start on, `log` is to have what that writes."""
        self._log, self._before = directory / f"{name}.log", directory / f"{name}.before"
        self._process: subprocess.Popen[bytes] | None = None
        self._console: Console | None = None
        self.capture = logs / f"{name}.pcap"
        self.media: Sequence[Path] = ()
        """Further disks, read-only: `/dev/disk/by-id/virtio-medium0` and so on."""
        directory.mkdir(parents=True, exist_ok=True)
        logs.mkdir(parents=True, exist_ok=True)
        self._board = board()
        source = image or self._board.image
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", source, self.disk], check=True)
        shutil.copyfile(self._board.variables, directory / f"{name}.vars")

    @property
    def console(self) -> Console:
        """Return the console of the running machine."""
        assert self._console is not None
        return self._console

    def give(self, *files: Path, folder: str = "meshsec") -> None:
        """Copy files to the disk's first partition, into the folder that people may write or another one."""
        (start,) = re.findall(r"start= *(\d+),.*meshsec-esp", _said("sfdisk", "--dump", str(self.disk)))
        _said("mcopy", "-i", f"{self.disk}@@{int(start) * 512}", *map(str, files), f"::{folder}/")

    def start(
        self, other: str, credentials: Mapping[str, str], kernel_words: str = "", options: Sequence[str] = ()
    ) -> Self:
        """Switch on, on a link with the vehicle ``other``; ``credentials`` come from the machine's firmware.

        ``kernel_words`` are added to the kernel's command line, as a hypervisor may (systemd-stub(7)). ``options`` are
        QEMU's.
        """
        assert self._process is None
        if self.is_logged:
            disk_log.copy(self.disk, self._before)
            self._log.unlink(missing_ok=True)
        argv = [*self._link.within(), *self._machine(), *self._interface(other), *self._firmware(credentials)]
        for number, medium in enumerate(self.media):
            argv += ["-drive", f"if=none,id=medium{number},format=raw,readonly=on,file={medium}"]
            argv += ["-device", f"virtio-blk-pci,drive=medium{number},serial=medium{number}"]
        argv += ["-smbios", f"type=11,value=io.systemd.stub.kernel-cmdline-extra={_PATIENCE} {kernel_words}", *options]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._console = Console(self._process, self._logs / f"{self.name}.console")
        return self

    def wait_restart(self, seconds: float) -> None:
        """Wait until the machine restarts, which switches it off here: `start` goes on."""
        wait_until("the machine restarts", lambda: not self._is_on(), [self.console], seconds)
        self.cut_power()

    def _is_on(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None

    @property
    def log(self) -> Log:
        """Return what the machine, which is off, has written since its last start."""
        assert self._process is None
        return disk_log.read(self._before, self._log)

    def cut_power(self) -> None:
        """Switch the power off without notice to the machine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.console.close()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_power()
        for path in (self.disk, self._log, self._before):
            path.unlink(missing_ok=True)

    def log_in(self, password: str, seconds: float) -> None:
        """Log in as root on the console; return when there is a prompt that `run` understands."""
        self.console.wait(r"login: ", seconds)
        self.console.type("root\n")
        self.console.wait(r"Password: ", seconds)
        self.console.type(f"{password}\n")
        self.console.wait(r"root@\S+:\S*#", seconds)
        self.console.type("stty -echo; PS1=; PS2=; PROMPT_COMMAND=; bind 'set enable-bracketed-paste off'\n")
        self.run("dmesg --console-off; kill -SIGRTMIN+21 1", seconds)  # Kernel messages must not disturb the console.

    def run(self, command: str, seconds: float) -> tuple[int, str]:
        """Type a command at the console. Return its status and its output."""
        after = len(self.console.text)
        self.console.type(f'{{ {command}\n}} 2>&1; echo "==$?=="\n')
        end = self.console.wait(r"==(\d+)==", seconds, after)
        return int(end[1]), self.console.text[after : end.start()].strip()

    def sent_and_received(self) -> Counter[Kind]:
        """Return what has crossed the link to the other vehicle up to now."""
        classifier = Classifier()
        return Counter(classifier.frame(frame) for frame in _frames(self.capture.read_bytes()))

    def _machine(self) -> list[str]:
        firmware = "if=pflash,format=raw"
        return [
            *("setpriv", "--pdeathsig", "KILL"),  # The kernel ends it even when the test is killed.
            *(*self._board.qemu, "-cpu", self._board.cpu, "-smp", "1", "-m", str(_MEMORY_MIB)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"),
            *("-uuid", _uuid(self.name)),
            *("-drive", f"{firmware},unit=0,readonly=on,file={self._board.firmware}"),
            *("-drive", f"{firmware},unit=1,file={self._directory / self.name}.vars"),
            *self._drive(),
            *("-device", "virtio-blk-pci,drive=disk,bootindex=0"),
            *("-device", "virtio-rng-pci"),
        ]

    def _drive(self) -> list[str]:
        if self.is_logged:
            return disk_log.options(self.disk, self._log, "if=none,id=disk")
        return ["-drive", f"if=none,id=disk,format=raw,file={self.disk}"]

    def _interface(self, other: str) -> list[str]:
        ends = {"local": _port(self.name), "remote": _port(other)}
        addresses = ",".join(f"{end}.type=inet,{end}.host=127.0.0.1,{end}.port={port}" for end, port in ends.items())
        return [
            *("-netdev", f"dgram,id=link,{addresses}"),
            *("-device", f"virtio-net-pci,netdev=link,addr={_SLOT:#x},romfile=,mac={_mac(self.name)}"),
            *("-object", f"filter-dump,id=dump,netdev=link,maxlen={SNAPLEN},file={self.capture}"),
        ]

    def _firmware(self, credentials: Mapping[str, str]) -> Iterator[str]:
        """Yield the options for credentials in files, which unlike arguments are readable for root only."""
        for name, value in credentials.items():
            path = self._directory / f"{self.name}.{name}"
            path.touch(mode=0o600)
            encoded = base64.b64encode(value.encode()).decode()
            path.write_text(f"io.systemd.credential.binary:{name}={encoded}", encoding="ascii")
            yield from ("-smbios", f"type=11,path={path}")


def _said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode()


def password_hash(password: str) -> str:
    """Return the hash that `mkpasswd` makes."""
    done = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=password, text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


def quoted(*words: str) -> str:
    """Quote ``words`` for the console's shell."""
    return shlex.join(words)


def _uuid(name: str) -> str:
    return f"00000000-0000-4000-8000-{name.encode().hex():0>12}"


def _port(name: str) -> int:
    return 10000 + ord(name[0])


def _mac(name: str) -> str:
    return f"02:00:00:00:00:{ord(name[0]):02x}"


def _frames(pcap: bytes) -> Iterator[bytes]:
    """Yield the packets of a pcap file in this machine's byte order, up to an incomplete one."""
    position = 24
    while position + 16 <= len(pcap):
        (kept,) = struct.unpack_from("=I", pcap, position + 8)
        yield pcap[position + 16 : position + 16 + kept]
        position += 16 + kept
