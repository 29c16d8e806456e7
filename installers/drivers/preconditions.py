"""Whether a driver may be installed here: facts of the host and of the file → what is in the way.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envcheck.core import errors
from envcheck.core.units import MIB, mib
from envcheck.core.versions import compare, same_release
from installers.drivers.host_facts import Site
from installers.drivers.installer_tables import Named, reaches
from installers.drivers.run_file import RunFile

FACTOR = 3  # of the file's size where it does not tell its unpacked size: xz packs libraries to a third


@dataclass(frozen=True)
class Case:
    """What is judged.  `expected_sha256` comes from the recipe, the vendor or the lock; "" where nobody published one.

    `guarded`: nobody but root and who calls can write the file or replace it; None where that could not be told.
    """

    named: Named
    file: RunFile
    site: Site
    minimum: str | None = None
    expected_sha256: str = ""
    allow_downgrade: bool = False
    guarded: bool | None = True


@dataclass(frozen=True)
class Verdict:
    """One check's answer: `fits` True, False, or None for "cannot tell", which is shown and stops nothing."""

    fits: bool | None
    words: str
    remedy: str = ""
    code: int = errors.UNFIT


Check = Callable[[Case], Iterator[Verdict]]


def judge(case: Case) -> tuple[Verdict, ...]:
    """Every check's answers, in the order in which a person would see to them."""
    return tuple(verdict for check in CHECKS for verdict in check(case))


def _whole(case: Case) -> Iterator[Verdict]:
    words = f"{case.file.path.name}: {case.file.why}"
    yield Verdict(case.file.intact, words, "fetch the file again" if case.file.intact is False else "")


def _sum(case: Case) -> Iterator[Verdict]:
    seen, wanted = case.file.sha256, case.expected_sha256
    if not wanted:
        yield Verdict(None, f"nobody publishes a sum for this file; its SHA-256 is {seen}")
    elif seen == wanted:
        yield Verdict(True, f"SHA-256 {seen}, as expected")
    else:
        yield Verdict(False, f"SHA-256 is {seen}, expected was {wanted}", "do not run this file; fetch it again")


def _guarded(case: Case) -> Iterator[Verdict]:
    path = case.file.path
    if not case.guarded:
        known = "others may write" if case.guarded is False else "it could not be told who may write"
        yield Verdict(None, f"{known} {path} or its folder: a copy of root's own is compared and run")


def _architecture(case: Case) -> Iterator[Verdict]:
    here, wanted = case.site.architecture, case.named.architecture
    if not wanted:
        return
    if not here:
        yield Verdict(None, f"the file is for {wanted}; this machine's architecture could not be told")
    elif here == wanted:
        yield Verdict(True, f"made for {wanted}")
    else:
        yield Verdict(False, f"the file is for {wanted}, this machine is {here}", f"take the vendor's file for {here}")


def _rights(case: Case) -> Iterator[Verdict]:
    if case.site.euid is None:
        yield Verdict(None, "whether this is root could not be told")
    elif case.site.euid != 0:
        yield Verdict(False, "a driver is installed by root, and this is not", "repeat it with sudo", errors.USAGE)
    if case.site.in_container:
        words = "this is a container: a driver belongs into the host's kernel"
        yield Verdict(False, words, "run it on the host", errors.USAGE)


def _version(case: Case) -> Iterator[Verdict]:
    """Never older than what is there unless told; nor older than what the recipe wants."""
    new, old = case.named.version, case.site.installed
    if new and reaches(new, case.minimum) is False:
        yield Verdict(False, f"the file is version {new}, the recipe wants {case.minimum} or newer", "take a newer one")
    if old is None:
        yield Verdict(None, "the installed version could not be told")
    elif not old:
        yield Verdict(True, "none is installed")
    else:
        yield _against(case, old, new)


def _against(case: Case, old: str, new: str) -> Verdict:
    order = 0 if same_release(new, old) else compare(new, old) if new else None
    if order is not None and order >= 0:
        return Verdict(True, f"{old} is installed, the file is {new}")
    words = f"{old} is installed, the file is {new or 'of unknown version'}"
    if case.allow_downgrade:
        return Verdict(True, f"{words}: allowed")
    if order is None:
        return Verdict(
            False, f"{words}: which is newer cannot be told", "say --allow-downgrade if it shall be so", errors.UNTOLD
        )
    return Verdict(False, f"{words}: that is older", "say --allow-downgrade if an older one is meant")


def _building(case: Case) -> Iterator[Verdict]:
    """F30: installers stop half-way where headers or compiler are missing."""
    site, driver = case.site, case.named.driver
    missing = sorted(set(driver.tools) - site.tools) if site.tools is not None else []
    if driver.tools and site.tools is None:
        yield Verdict(None, f"whether {', '.join(driver.tools)} are there could not be told")
    elif missing:
        packages = " ".join(sorted({_PACKAGES.get(tool, tool) for tool in missing}))
        yield Verdict(False, f"it needs {', '.join(missing)}", f"on Debian and Ubuntu: apt-get install {packages}")
    if not driver.builds_module:
        return
    if site.headers is None:
        yield Verdict(None, "whether the running kernel's headers are there could not be told")
    elif not site.headers:
        words = f"the headers of the running kernel are missing: /lib/modules/{site.kernel}/build"
        debian, redhat = f"linux-headers-{site.kernel}", f"kernel-devel-{site.kernel}"
        yield Verdict(False, words, f"apt-get install {debian}, or yum install {redhat}; else start the newest kernel")
    else:
        yield Verdict(True, f"headers of kernel {site.kernel}")


_PACKAGES = {"lspci": "pciutils", "ifconfig": "net-tools"}


def _users(case: Case) -> Iterator[Verdict]:
    for user in case.named.driver.users:
        if case.site.users is None:
            yield Verdict(None, f"whether there is a user {user} could not be told")
        elif user not in case.site.users:
            remedy = f"groupadd {user} && useradd -g {user} -d /home/{user} -m -s /bin/bash {user}"
            yield Verdict(False, f"there is no user {user}, under whom it runs", remedy)


def _space(case: Case) -> Iterator[Verdict]:
    """Unpacked in the scratch folder, installed below /."""
    site, unpacked = case.site, case.file.unpacked_bytes or case.file.size_bytes * FACTOR
    needs = {"/": case.named.driver.space_mib * MIB}
    copied = 0 if case.guarded else case.file.size_bytes
    needs[site.scratch] = max(unpacked + copied, needs.get(site.scratch, 0))
    for folder, needed in needs.items():
        free = site.room_bytes.get(folder)
        if free is None:
            yield Verdict(None, f"how much is free in {folder} could not be told")
        elif free < needed:
            words = f"{mib(free / MIB)} are free in {folder}, about {mib(needed / MIB)} are needed"
            yield Verdict(False, words, "make room" if folder == "/" else "make room, or set TMPDIR to another folder")
    if site.scratch_noexec:
        yield Verdict(False, f"nothing may be run in {site.scratch} (noexec)", "set TMPDIR to another folder")


def _modules(case: Case) -> Iterator[Verdict]:
    """What holds a module is a process (seen below) or a service of its own, such as nvidia-persistenced or X."""
    site, driver = case.site, case.named.driver
    if site.modules is None:
        yield Verdict(None, "which kernel modules are loaded could not be told")
        return
    for name in driver.conflicts:
        if name in site.modules:
            remedy = f"echo 'blacklist {name}' > /etc/modprobe.d/{name}.conf, make the initramfs anew, and reboot"
            yield Verdict(False, f"the kernel module {name} is loaded and excludes this driver", remedy)
    for name in driver.modules:
        loaded = site.modules.get(name)
        if loaded and loaded.uses > len(loaded.by):
            words = f"the kernel module {name} is in use ({loaded.uses - len(loaded.by)} times)"
            yield Verdict(False, words, "stop what uses the cards: services of the vendor, monitors, a display")


def _processes(case: Case) -> Iterator[Verdict]:
    holders = case.site.holders
    if holders is None:
        yield Verdict(None, "whether somebody uses the cards could not be told")
    elif holders:
        listed = ", ".join(f"{holder.name} ({holder.pid})" for holder in holders[:8])
        more = f" and {len(holders) - 8} more" if len(holders) > 8 else ""
        yield Verdict(False, f"the cards are in use by {listed}{more}", "ask their owners, and stop them")
    else:
        yield Verdict(True, "nobody uses the cards")


def _secure_boot(case: Case) -> Iterator[Verdict]:
    site = case.site
    if not case.named.driver.builds_module:
        return
    if site.secure_boot is None:
        yield Verdict(None, "whether Secure Boot is on could not be told")
    elif site.secure_boot and not site.owner_key:
        words = "Secure Boot is on: the kernel refuses a module that is built here and not signed"
        yield Verdict(
            False, words, "switch it off in the firmware's settings, or enrol a key of yours (mokutil --import)"
        )
    elif site.secure_boot:
        yield Verdict(None, "Secure Boot is on; there is a key of the owner's, whether it is enrolled is not told")


CHECKS: tuple[Check, ...] = (
    _whole,
    _sum,
    _guarded,
    _architecture,
    _rights,
    _version,
    _building,
    _users,
    _space,
    _modules,
    _processes,
    _secure_boot,
)
