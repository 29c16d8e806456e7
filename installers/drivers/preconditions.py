"""Preconditions of a driver installation: facts of the host and the file → verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envcheck.core import errors
from envcheck.core.messages import NOTHING, Message, _, join, ngettext, verbatim
from envcheck.core.units import MIB, format_mib
from envcheck.core.versions import compare_versions, is_same_release
from installers.drivers.host_facts import DriverHost
from installers.drivers.installer_tables import MatchedInstaller, meets_minimum
from installers.drivers.run_file import RunFile

FACTOR = 3  # times the file size, if the file does not give its unpacked size: xz compresses libraries to about a third


@dataclass(frozen=True)
class DriverCase:
    """The facts to judge.  `expected_sha256` is from the recipe, the vendor or the lock; "" if none is published.

    `guarded`: only root and the caller can write or replace the file; None if unknown.
    """

    named: MatchedInstaller
    file: RunFile
    site: DriverHost
    minimum: str | None = None
    expected_sha256: str = ""
    allow_downgrade: bool = False
    guarded: bool | None = True


@dataclass(frozen=True)
class PreconditionVerdict:
    """The result of one check: `fits` is True, False, or None for unknown, which is shown but blocks nothing."""

    fits: bool | None
    words: Message
    remedy: Message = NOTHING
    code: int = errors.CHECK_FAILED


Check = Callable[[DriverCase], Iterator[PreconditionVerdict]]


def judge_case(case: DriverCase) -> tuple[PreconditionVerdict, ...]:
    """Return all verdicts, in the order in which to resolve them."""
    return tuple(verdict for check in CHECKS for verdict in check(case))


def _check_integrity(case: DriverCase) -> Iterator[PreconditionVerdict]:
    words = _("{name}: {why}", name=case.file.path.name, why=case.file.why)
    yield PreconditionVerdict(
        case.file.intact, words, _("fetch the file again") if case.file.intact is False else NOTHING
    )


def _check_sum(case: DriverCase) -> Iterator[PreconditionVerdict]:
    seen, wanted = case.file.sha256, case.expected_sha256
    if not wanted:
        yield PreconditionVerdict(
            None, _("no checksum is published for this file; its SHA-256 is {sha256}", sha256=seen)
        )
    elif seen == wanted:
        yield PreconditionVerdict(True, _("SHA-256 {sha256}, as expected", sha256=seen))
    else:
        yield PreconditionVerdict(
            False,
            _("expected SHA-256 {wanted}, got {sha256}", sha256=seen, wanted=wanted),
            _("do not run this file; download it again"),
        )


def _check_write_access(case: DriverCase) -> Iterator[PreconditionVerdict]:
    path = case.file.path
    if not case.guarded:
        why = (
            _("other users can write to {path} or its folder; envcheck verifies and runs a private copy", path=path)
            if case.guarded is False
            else _(
                "cannot determine who can write to {path} or its folder; envcheck verifies and runs a private copy",
                path=path,
            )
        )
        yield PreconditionVerdict(None, why)


def _check_architecture(case: DriverCase) -> Iterator[PreconditionVerdict]:
    here, wanted = case.site.architecture, case.named.architecture
    if not wanted:
        return
    if not here:
        yield PreconditionVerdict(
            None, _("the file is for {wanted}; this machine's architecture is unknown", wanted=wanted)
        )
    elif here == wanted:
        yield PreconditionVerdict(True, _("built for {wanted}", wanted=wanted))
    else:
        yield PreconditionVerdict(
            False,
            _("the file is for {wanted}; this machine is {here}", wanted=wanted, here=here),
            _("use the vendor's file for {here}", here=here),
        )


def _check_privileges(case: DriverCase) -> Iterator[PreconditionVerdict]:
    if case.site.euid is None:
        yield PreconditionVerdict(None, _("cannot determine whether envcheck runs as root"))
    elif case.site.euid != 0:
        yield PreconditionVerdict(
            False, _("installing a driver requires root"), _("run the command with sudo"), errors.USAGE
        )
    if case.site.in_container:
        words = _("this is a container; drivers must be installed on the host")
        yield PreconditionVerdict(False, words, _("run the command on the host"), errors.USAGE)


def _check_version(case: DriverCase) -> Iterator[PreconditionVerdict]:
    """Refuse a version older than the installed one, unless allowed, or older than the recipe's minimum."""
    new, old = case.named.version, case.site.installed
    if new and meets_minimum(new, case.minimum) is False:
        yield PreconditionVerdict(
            False,
            _("the file is version {new}; the recipe requires {minimum} or newer", new=new, minimum=case.minimum),
            _("use a newer file"),
        )
    if old is None:
        yield PreconditionVerdict(None, _("cannot determine the installed version"))
    elif not old:
        yield PreconditionVerdict(True, _("not installed"))
    else:
        yield _compare_versions(case, old, new)


def _compare_versions(case: DriverCase, old: str, new: str) -> PreconditionVerdict:
    order = 0 if is_same_release(new, old) else compare_versions(new, old) if new else None
    if order is not None and order >= 0:
        return PreconditionVerdict(True, _("{old} is installed; the file is {new}", old=old, new=new))
    words = _("{old} is installed; the file is {new}", old=old, new=new or _("an unknown version"))
    if case.allow_downgrade:
        return PreconditionVerdict(True, _("{difference}: allowed", difference=words))
    if order is None:
        return PreconditionVerdict(
            False,
            _("{difference}: cannot determine which is newer", difference=words),
            _("add --allow-downgrade to install it anyway"),
            errors.UNDETERMINED,
        )
    return PreconditionVerdict(
        False,
        _("{difference}: this is a downgrade", difference=words),
        _("add --allow-downgrade to install an older version"),
    )


def _check_build_tools(case: DriverCase) -> Iterator[PreconditionVerdict]:
    """Require headers and compiler: without them installers stop half-way."""
    site, driver = case.site, case.named.driver
    missing = sorted(set(driver.tools) - site.tools) if site.tools is not None else []
    if driver.tools and site.tools is None:
        yield PreconditionVerdict(
            None, _("cannot determine whether {tools} are installed", tools=join(", ", driver.tools))
        )
    elif missing:
        packages = " ".join(sorted({_PACKAGES.get(tool, tool) for tool in missing}))
        yield PreconditionVerdict(
            False,
            _("the installer requires {missing}", missing=join(", ", missing)),
            _("on Debian and Ubuntu, run `apt-get install {packages}`", packages=packages),
        )
    if not driver.builds_module:
        return
    if site.headers is None:
        yield PreconditionVerdict(None, _("cannot determine whether the headers of the running kernel are installed"))
    elif not site.headers:
        words = _("headers of the running kernel are missing: /lib/modules/{kernel}/build", kernel=site.kernel)
        debian, redhat = f"linux-headers-{site.kernel}", f"kernel-devel-{site.kernel}"
        yield PreconditionVerdict(
            False,
            words,
            _(
                "run `apt-get install {debian}` or `yum install {redhat}`; otherwise boot the newest installed kernel",
                debian=debian,
                redhat=redhat,
            ),
        )
    else:
        yield PreconditionVerdict(True, _("headers of kernel {kernel}", kernel=site.kernel))


_PACKAGES = {"lspci": "pciutils", "ifconfig": "net-tools"}


def _check_users(case: DriverCase) -> Iterator[PreconditionVerdict]:
    for user in case.named.driver.users:
        if case.site.users is None:
            yield PreconditionVerdict(None, _("cannot determine whether user {user} exists", user=user))
        elif user not in case.site.users:
            remedy = verbatim(f"groupadd {user} && useradd -g {user} -d /home/{user} -m -s /bin/bash {user}")
            yield PreconditionVerdict(
                False, _("user {user}, which the driver runs as, does not exist", user=user), remedy
            )


def _check_space(case: DriverCase) -> Iterator[PreconditionVerdict]:
    """Require space in the scratch folder for unpacking and below / for installing."""
    site, unpacked = case.site, case.file.unpacked_bytes or case.file.size_bytes * FACTOR
    needs = {"/": case.named.driver.space_mib * MIB}
    copied = 0 if case.guarded else case.file.size_bytes
    needs[site.scratch] = max(unpacked + copied, needs.get(site.scratch, 0))
    for folder, needed in needs.items():
        free = site.room_bytes.get(folder)
        if free is None:
            yield PreconditionVerdict(None, _("cannot determine the free space in {folder}", folder=folder))
        elif free < needed:
            words = _(
                "about {needed} needed in {folder}; {free} free",
                free=format_mib(free / MIB),
                folder=folder,
                needed=format_mib(needed / MIB),
            )
            yield PreconditionVerdict(
                False,
                words,
                _("free disk space") if folder == "/" else _("free disk space, or set TMPDIR to another folder"),
            )
    if site.scratch_noexec:
        yield PreconditionVerdict(
            False,
            _("programs cannot run in {scratch} (mounted noexec)", scratch=site.scratch),
            _("set TMPDIR to another folder"),
        )


def _check_modules(case: DriverCase) -> Iterator[PreconditionVerdict]:
    """Report modules in use: by processes (see below) or by services such as nvidia-persistenced or X."""
    site, driver = case.site, case.named.driver
    if site.modules is None:
        yield PreconditionVerdict(None, _("cannot determine which kernel modules are loaded"))
        return
    for name in driver.conflicts:
        if name in site.modules:
            remedy = _(
                "run `echo 'blacklist {name}' > /etc/modprobe.d/{name}.conf`, rebuild the initramfs, and reboot",
                name=name,
            )
            yield PreconditionVerdict(
                False, _("kernel module {name} is loaded and conflicts with this driver", name=name), remedy
            )
    for name in driver.modules:
        loaded = site.modules.get(name)
        if loaded and loaded.uses > len(loaded.by):
            words = ngettext(
                "kernel module {name} is in use ({count} user)",
                "kernel module {name} is in use ({count} users)",
                loaded.uses - len(loaded.by),
                name=name,
            )
            yield PreconditionVerdict(
                False,
                words,
                _("stop the programs that use the devices: vendor services, monitoring, the graphical desktop"),
            )


def _check_processes(case: DriverCase) -> Iterator[PreconditionVerdict]:
    holders = case.site.holders
    if holders is None:
        yield PreconditionVerdict(None, _("cannot determine whether the devices are in use"))
    elif holders:
        listed = join(", ", (f"{holder.name} ({holder.pid})" for holder in holders[:8]))
        more = len(holders) - 8
        yield PreconditionVerdict(
            False,
            _("devices in use by {processes} and {more} more", processes=listed, more=more)
            if more > 0
            else _("devices in use by {processes}", processes=listed),
            _("ask the owners, then stop these processes"),
        )
    else:
        yield PreconditionVerdict(True, _("no process uses the devices"))


def _check_secure_boot(case: DriverCase) -> Iterator[PreconditionVerdict]:
    site = case.site
    if not case.named.driver.builds_module:
        return
    if site.secure_boot is None:
        yield PreconditionVerdict(None, _("cannot determine whether Secure Boot is enabled"))
    elif site.secure_boot and not site.owner_key:
        words = _("Secure Boot is enabled: the kernel rejects unsigned modules built on this machine")
        yield PreconditionVerdict(
            False, words, _("disable Secure Boot in the firmware settings, or enrol your own key (mokutil --import)")
        )
    elif site.secure_boot:
        yield PreconditionVerdict(
            None, _("Secure Boot is enabled; an owner key exists, but envcheck cannot determine whether it is enrolled")
        )


CHECKS: tuple[Check, ...] = (
    _check_integrity,
    _check_sum,
    _check_write_access,
    _check_architecture,
    _check_privileges,
    _check_version,
    _check_build_tools,
    _check_users,
    _check_space,
    _check_modules,
    _check_processes,
    _check_secure_boot,
)
