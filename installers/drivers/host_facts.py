"""Facts of a host that decide whether a driver can be installed; `preconditions` judges them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from envcheck.collect.answer_sources import AnswerSource, ask_all
from envcheck.collect.host.answers import SYSROOT
from envcheck.core.model import Answer, Outcome, Question
from envcheck.vendors import VENDORS
from installers.drivers.patterns import match_parts
from installers.recipes.recipe import DriverInstaller, VersionQuery

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Machine owner keys of dkms and Debian's shim: modules built here can be signed with them and loaded.
OWNER_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin")
FILES = ("/proc/modules", "/proc/mounts", "/etc/passwd")
ANCHOR = "/usr/bin/env"  # on every Linux; a machine without it is simulated and has no compilers either
QUESTION_S = 20.0


@dataclass(frozen=True)
class KernelModule:
    """A loaded kernel module: its use count and the modules that use it (/proc/modules)."""

    uses: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceHolder:
    """A process that has a device node open."""

    pid: int
    name: str


@dataclass(frozen=True)
class DriverHost:
    """Facts of the host; None means unknown.

    `room_bytes` is the free space by folder: / and `scratch`, where a .run file unpacks itself.  `installed` is the
    driver's version, "" if not installed.  `scratch_noexec`: programs cannot run there.
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
    modules: Mapping[str, KernelModule] | None = None
    secure_boot: bool | None = None
    owner_key: bool = False
    holders: tuple[DeviceHolder, ...] | None = None
    installed: str | None = None


def gather_facts(driver: DriverInstaller, device: str, machine: AnswerSource) -> DriverHost:
    """Return the facts that the checks need; changes nothing and runs only the vendor's own query."""
    scratch = os.environ.get("TMPDIR") or "/tmp"  # as in makeself's header
    fixed = (
        *(Question("ask", (name,), QUESTION_S) for name in ("host", "disks")),
        *(Question("read", (path,), QUESTION_S) for path in (*FILES, SECURE_BOOT)),
        *(Question("list", (path,), QUESTION_S) for path in (ANCHOR, "/sys/firmware/efi", *OWNER_KEYS)),
        *(Question("list", (f"{folder}/{tool}",), QUESTION_S) for tool in driver.tools for folder in FOLDERS),
    )
    answers = ask_all(machine, fixed)
    host, disks = _parse_json(answers["ask host"]), _parse_json(answers["ask disks"])
    kernel = str(host.get("kernel") or "")
    makefile = Question("list", (f"/lib/modules/{kernel}/build/Makefile",), QUESTION_S)
    tools = frozenset(tool for tool in driver.tools if any(answers[f"list {f}/{tool}"].out for f in FOLDERS))
    seen = bool(answers[f"list {ANCHOR}"].out)
    return DriverHost(
        kernel=kernel,
        architecture=str(host.get("architecture") or ""),
        euid=host.get("euid"),
        in_container=host.get("in_container"),
        headers=bool(machine(makefile).out) if kernel and seen else None,
        tools=tools if seen else None,
        users=_parse_users(answers["read /etc/passwd"]),
        room_bytes={folder: _free_bytes(disks, folder) for folder in ("/", scratch)},
        scratch=scratch,
        scratch_noexec=_is_noexec(answers["read /proc/mounts"], scratch),
        modules=_parse_modules(answers["read /proc/modules"]),
        secure_boot=_parse_secure_boot(answers[f"read {SECURE_BOOT}"], answers["list /sys/firmware/efi"]),
        owner_key=any(answers[f"list {key}"].out for key in OWNER_KEYS),
        holders=None if os.environ.get(SYSROOT) else find_holders(VENDORS[device].node_pattern),
        installed=read_installed_version(driver, machine),
    )


def read_installed_version(driver: DriverInstaller, machine: AnswerSource) -> str | None:
    """Return the version from the first source that gives one; "" if every source reports none, None if unknown."""
    absent = True
    for query in driver.versions:
        answer = machine(_version_question(query))
        if version := _parse_version(query, answer):
            return version
        absent = absent and _is_absent(query, answer)
    return "" if absent and driver.versions else None


def _version_question(query: VersionQuery) -> Question:
    return Question("read", (query.read,), QUESTION_S) if query.read else Question("run", query.run, QUESTION_S)


def _parse_version(query: VersionQuery, answer: Answer) -> str:
    found = (match_parts(query.pattern, line) for line in answer.out.splitlines()[:200])
    return next((said["version"] for said in found if said), "") if answer.outcome is Outcome.ANSWERED else ""


def _is_absent(query: VersionQuery, answer: Answer) -> bool:
    """Return whether the answer means "not installed": modinfo exits with 1 and prints "not found"."""
    missing = answer.outcome is Outcome.FAILED and "not found" in answer.err.lower()
    return answer.outcome is Outcome.ABSENT or (bool(query.run) and missing)


def find_holders(node_pattern: str) -> tuple[DeviceHolder, ...] | None:
    """Return the processes that have a device node open; None without permission to inspect other users' processes."""
    if not node_pattern:
        return ()
    found, blind = [], False
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if any(fnmatch(node, node_pattern) for node in _open_files(process)):
                    found.append(DeviceHolder(int(process.name), _process_name(process)))
            except PermissionError:
                blind = True
            except OSError:
                continue  # the process has exited
    return None if blind and not found else tuple(sorted(found, key=lambda holder: holder.pid))


def _open_files(process: Path) -> Iterator[str]:
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(link.readlink())


def _process_name(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text(errors="replace").strip()
    return "?"


def _parse_json(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.out or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _parse_users(passwd: Answer) -> frozenset[str] | None:
    if passwd.outcome is not Outcome.ANSWERED:
        return None
    return frozenset(line.partition(":")[0] for line in passwd.out.splitlines())


def _parse_modules(answer: Answer) -> dict[str, KernelModule] | None:
    """Parse `nvidia 56791040 2 nvidia_uvm,nvidia_modeset, Live 0x...`; "-" means that no module uses it."""
    if answer.outcome in (Outcome.ABSENT, Outcome.FAILED):
        return None
    found = {}
    for line in answer.out.splitlines():
        words = line.split()
        if len(words) >= 4:
            by = tuple(name for name in words[3].split(",") if name not in ("", "-"))
            found[words[0]] = KernelModule(int(words[2]) if words[2].isdigit() else 0, by)
    return found


def _parse_secure_boot(variable: Answer, efi: Answer) -> bool | None:
    """Parse the EFI variable: four attribute bytes, then 1 or 0.  A machine without EFI has no Secure Boot."""
    if variable.outcome is Outcome.ANSWERED and variable.out:
        return variable.out[-1] == "\x01"
    return None if efi.out else False


def _is_noexec(mounts: Answer, folder: str) -> bool | None:
    """Return whether the folder's mount is noexec: the nearest mount above it; the last one on a mount point counts."""
    found: tuple[int, bool] | None = None
    for line in mounts.out.splitlines():
        words = line.split()
        if len(words) >= 4 and _is_below(folder, words[1]) and (not found or len(words[1]) >= found[0]):
            found = (len(words[1]), "noexec" in words[3].split(","))
    return found[1] if found else None


def _free_bytes(disks: Mapping[str, Any], folder: str) -> int | None:
    near = max((place for place in disks if place.startswith("/") and _is_below(folder, place)), key=len, default="")
    free = disks.get(near, {}).get("free_bytes") if isinstance(disks.get(near), dict) else None
    return free if isinstance(free, int) else None


def _is_below(folder: str, place: str) -> bool:
    return place == "/" or folder == place or folder.startswith(place.rstrip("/") + "/")
