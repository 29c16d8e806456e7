"""Facts of a host that decide whether a driver can be installed; gathered by questions, judged elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from envcheck.collect.host.answers import SYSROOT
from envcheck.collect.machine import Machine, ask_all
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS
from installers.drivers.patterns import parts
from installers.recipes.recipe import Driver, VersionQuery

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Where dkms and Debian's shim keep the key of a machine's owner: with it, a module built here may be signed and loaded.
OWNER_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin")
FILES = ("/proc/modules", "/proc/mounts", "/etc/passwd")
ANCHOR = "/usr/bin/env"  # on every Linux: where it is not seen, neither are compilers and headers (a simulated machine)
QUESTION_S = 20.0


@dataclass(frozen=True)
class Module:
    """A loaded kernel module: how many use it, and which modules are among them (/proc/modules)."""

    uses: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Holder:
    """A process that has a card's device node open."""

    pid: int
    name: str


@dataclass(frozen=True)
class Site:
    """None is "could not be told" throughout.  `room_bytes` by folder: / and `scratch`, where a .run unpacks itself.

    `installed` is the driver's version, "" where there is none.  `scratch_noexec`: nothing may be run there.
    """

    kernel: str = ""
    architecture: str = ""
    euid: int | None = None
    in_container: bool | None = None
    headers: bool | None = None
    tools: frozenset[str] | None = None
    users: frozenset[str] | None = None
    room_bytes: Mapping[str, int | None] = field(default_factory=dict)
    scratch: str = "/tmp"
    scratch_noexec: bool | None = None
    modules: Mapping[str, Module] | None = None
    secure_boot: bool | None = None
    owner_key: bool = False
    holders: tuple[Holder, ...] | None = None
    installed: str | None = None


def gather(driver: Driver, device: str, machine: Machine) -> Site:
    """Everything that the checks ask for; changes nothing and runs nothing but the vendor's own query."""
    scratch = os.environ.get("TMPDIR") or "/tmp"  # as makeself's head has it
    fixed = (
        *(Question("ask", (name,), QUESTION_S) for name in ("host", "disks")),
        *(Question("read", (path,), QUESTION_S) for path in (*FILES, SECURE_BOOT)),
        *(Question("list", (path,), QUESTION_S) for path in (ANCHOR, "/sys/firmware/efi", *OWNER_KEYS)),
        *(Question("list", (f"{folder}/{tool}",), QUESTION_S) for tool in driver.tools for folder in FOLDERS),
    )
    said = ask_all(machine, fixed)
    host, disks = _values(said["ask host"]), _values(said["ask disks"])
    kernel = str(host.get("kernel") or "")
    makefile = Question("list", (f"/lib/modules/{kernel}/build/Makefile",), QUESTION_S)
    tools = frozenset(tool for tool in driver.tools if any(said[f"list {f}/{tool}"].out for f in FOLDERS))
    seen = bool(said[f"list {ANCHOR}"].out)
    return Site(
        kernel=kernel,
        architecture=str(host.get("architecture") or ""),
        euid=host.get("euid"),
        in_container=host.get("in_container"),
        headers=bool(machine(makefile).out) if kernel and seen else None,
        tools=tools if seen else None,
        users=_users(said["read /etc/passwd"]),
        room_bytes={folder: _room(disks, folder) for folder in ("/", scratch)},
        scratch=scratch,
        scratch_noexec=_noexec(said["read /proc/mounts"], scratch),
        modules=_modules(said["read /proc/modules"]),
        secure_boot=_secure_boot(said[f"read {SECURE_BOOT}"], said["list /sys/firmware/efi"]),
        owner_key=any(said[f"list {key}"].out for key in OWNER_KEYS),
        holders=None if os.environ.get(SYSROOT) else holders(VENDORS[device].node_pattern),
        installed=installed(driver, machine),
    )


def installed(driver: Driver, machine: Machine) -> str | None:
    """The version that the first source tells; "" where every source says that nothing is there, None if none can."""
    absent = True
    for query in driver.versions:
        answer = machine(_question(query))
        if version := _told(query, answer):
            return version
        absent = absent and _nothing_there(query, answer)
    return "" if absent and driver.versions else None


def _question(query: VersionQuery) -> Question:
    return Question("read", (query.read,), QUESTION_S) if query.read else Question("run", query.run, QUESTION_S)


def _told(query: VersionQuery, answer: Answer) -> str:
    found = (parts(query.says, line) for line in answer.out.splitlines()[:200])
    return next((said["version"] for said in found if said), "") if answer.outcome is Outcome.ANSWERED else ""


def _nothing_there(query: VersionQuery, answer: Answer) -> bool:
    """modinfo ends with 1 and says "not found" where there is no such module."""
    missing = answer.outcome is Outcome.FAILED and "not found" in answer.err.lower()
    return answer.outcome is Outcome.ABSENT or (bool(query.run) and missing)


def holders(node_pattern: str) -> tuple[Holder, ...] | None:
    """Who has a node open; None where the processes of others may not be looked into."""
    if not node_pattern:
        return ()
    found, blind = [], False
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if any(fnmatch(node, node_pattern) for node in _open(process)):
                    found.append(Holder(int(process.name), _name(process)))
            except PermissionError:
                blind = True
            except OSError:
                continue  # it ended meanwhile
    return None if blind and not found else tuple(sorted(found, key=lambda holder: holder.pid))


def _open(process: Path) -> Iterator[str]:
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(link.readlink())


def _name(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text(errors="replace").strip()
    return "?"


def _values(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.out or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _users(passwd: Answer) -> frozenset[str] | None:
    if passwd.outcome is not Outcome.ANSWERED:
        return None
    return frozenset(line.partition(":")[0] for line in passwd.out.splitlines())


def _modules(answer: Answer) -> dict[str, Module] | None:
    """`nvidia 56791040 2 nvidia_uvm,nvidia_modeset, Live 0x...`: - where no module uses it or unloading is off."""
    if answer.outcome in (Outcome.ABSENT, Outcome.FAILED):
        return None
    found = {}
    for line in answer.out.splitlines():
        words = line.split()
        if len(words) >= 4:
            by = tuple(name for name in words[3].split(",") if name not in ("", "-"))
            found[words[0]] = Module(int(words[2]) if words[2].isdigit() else 0, by)
    return found


def _secure_boot(variable: Answer, efi: Answer) -> bool | None:
    """Four bytes of attributes, then 1 or 0.  A machine that did not start by EFI has none."""
    if variable.outcome is Outcome.ANSWERED and variable.out:
        return variable.out[-1] == "\x01"
    return None if efi.out else False


def _noexec(mounts: Answer, folder: str) -> bool | None:
    """Of the mount that is nearest above the folder, the last one of a place counts."""
    found: tuple[int, bool] | None = None
    for line in mounts.out.splitlines():
        words = line.split()
        if len(words) >= 4 and _below(folder, words[1]) and (not found or len(words[1]) >= found[0]):
            found = (len(words[1]), "noexec" in words[3].split(","))
    return found[1] if found else None


def _room(disks: Mapping[str, Any], folder: str) -> int | None:
    near = max((place for place in disks if place.startswith("/") and _below(folder, place)), key=len, default="")
    free = disks.get(near, {}).get("free_bytes") if isinstance(disks.get(near), dict) else None
    return free if isinstance(free, int) else None


def _below(folder: str, place: str) -> bool:
    return place == "/" or folder == place or folder.startswith(place.rstrip("/") + "/")
