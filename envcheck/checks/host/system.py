"""Checks of the host: memory, disks, limits, kernel, clock, and variables left behind by an earlier job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, machine_check
from envcheck.core.facts import Disk, Facts, Limits, SystemFacts
from envcheck.core.findings import (
    fail,
    format_bytes,
    is_in_container,
    ok,
    quote_values,
    report_unanswered,
    skip,
    suppressed_by,
    unknown,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, mark, verbatim
from envcheck.core.model import Finding, Status, diagnose, fix, manual
from envcheck.core.vendor import ADVISED_SHM_GIB
from envcheck.settings.thresholds import threshold_bytes, threshold_value
from envcheck.vendors import VENDORS

KERNEL_FLOOR = "4.5"  # the driver installers reject older kernels (ascend-deployer README, crhy/spaced#20)
# paddle.distributed.launch prefers these to its command line; a job platform or an ended job leaves them behind.
STALE = re.compile(
    r"^(PADDLE_(TRAINERS?_\w+|TRAINERS|MASTER|NNODES|RANK\w*|DEVICES|NPROC_PER_NODE|RUN_MODE|IPS|CURRENT_ENDPOINT"
    r"|ELASTIC_\w+|WORKERS_\w+|NUM_GRADIENT_SERVERS|GLOBAL_\w+|LOCAL_\w+)|DISTRIBUTED_TRAINER_ENDPOINTS|POD_IP|FLAGS_START_PORT"
    r"|FLAGS_selected_\w+|(LOCAL_|NODE_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT))$"
)


def check_memory(facts: Facts) -> Iterator[Finding]:
    """Enough host memory is free."""
    free = (facts.host or SystemFacts()).memory_available_bytes
    if facts.host is None or free is None:
        yield report_unanswered(facts, "ask host")
    elif free < threshold_bytes(facts, "host.memory.warn_gib"):
        words = _("Stop processes that are not needed: loading a model needs at least its size in host memory.")
        shown = quote_values("psutil", memory_available_bytes=free)
        needed = format_bytes(threshold_bytes(facts, "host.memory.warn_gib"))
        yield warn(
            _("memory: {free} free (minimum {needed})", free=format_bytes(free), needed=needed),
            diagnose(words, "ps -eo rss,pid,user,cmd --sort=-rss | head"),
            evidence=shown,
        )
    else:
        total = facts.host.memory_total_bytes
        yield ok(
            _(
                "memory: {free} free{of_total}",
                free=format_bytes(free),
                of_total=_(" of {total}", total=format_bytes(total)) if total else "",
            )
        )


def check_swap(facts: Facts) -> Iterator[Finding]:
    """The host is not swapping."""
    host = facts.host
    if host is None or host.swap_used_bytes is None or host.swap_total_bytes is None:
        yield report_unanswered(facts, "ask host")
    elif host.swap_total_bytes == 0:
        yield skip(_("no swap"))
    elif host.swap_used_bytes > threshold_value(facts, "host.swap.warn_percent") / 100 * host.swap_total_bytes:
        seen = _(
            "{swap_used_bytes} of {swap_total_bytes} in use (limit {percent:g} %)",
            swap_used_bytes=format_bytes(host.swap_used_bytes),
            swap_total_bytes=format_bytes(host.swap_total_bytes),
            percent=threshold_value(facts, "host.swap.warn_percent"),
        )
        shown = quote_values("psutil", swap_used_bytes=host.swap_used_bytes, swap_total_bytes=host.swap_total_bytes)
        yield warn(
            seen,
            diagnose(
                _("Find the processes that use the memory: it is short now, or was earlier."),
                "ps -eo rss,pid,user,cmd --sort=-rss | head",
                "free -g",
            ),
            evidence=shown,
        )
    else:
        yield ok(
            _(
                "{swap_used_bytes} of {swap_total_bytes} in use",
                swap_used_bytes=format_bytes(host.swap_used_bytes),
                swap_total_bytes=format_bytes(host.swap_total_bytes),
            )
        )


def check_disk(facts: Facts) -> Iterator[Finding]:
    """The working directory and envcheck's directory have free space."""
    if facts.disks is None:
        yield report_unanswered(facts, "ask disks")
        return
    told = [(name, free) for name in (".", "home", "/") if (free := _free_bytes(facts, name)) is not None]
    if not told:
        yield unknown(_("cannot determine the free disk space"))
        return
    name, free = min(told, key=lambda pair: pair[1])
    where = {".": _("the working folder"), "home": _("envcheck's folder")}.get(name, name)
    if free < threshold_bytes(facts, "host.disk.warn_gib"):
        fails = free < threshold_bytes(facts, "host.disk.fail_gib")
        needed = format_bytes(threshold_bytes(facts, f"host.disk.{'fail' if fails else 'warn'}_gib"))
        yield warn_or_fail(
            Status.FAIL if fails else Status.WARN,
            _("{free} free for {where} (minimum {needed})", free=format_bytes(free), where=where, needed=needed),
            diagnose(_("Free disk space, or use another folder."), "df -h .", "du -xh . | sort -h | tail"),
            evidence=quote_values(f"statvfs {name}", free_bytes=free),
        )
    else:
        yield ok(_("{free} free for {where}", free=format_bytes(free), where=where))


def check_shm(facts: Facts) -> Iterator[Finding]:
    """/dev/shm is large enough for dataloaders and collective communication."""
    there = facts.disks.get("/dev/shm", Disk()).total_bytes if facts.disks else None
    job = facts.wanted
    if job and (job.shm_gib is not None or (job.image and not is_in_container(facts))):
        yield skip(_("checked for this job by job.shm"))
    elif facts.disks is None or there is None:
        yield report_unanswered(facts, "ask disks")
    elif there < threshold_bytes(facts, "host.shm.warn_gib") and facts.vendors:
        fails = there < threshold_bytes(facts, "host.shm.fail_gib")
        seen = _(
            "/dev/shm has {size} (minimum {needed})",
            size=format_bytes(there),
            needed=format_bytes(threshold_bytes(facts, "host.shm.warn_gib")),
        )
        inside = is_in_container(facts)
        advised_gib = max((v.vendor.shm_gib for v in facts.vendors), default=ADVISED_SHM_GIB)
        size = f"--shm-size={advised_gib}g"
        words = (
            _(
                "Recreate the container with {size} or --ipc=host: when /dev/shm is full, training ends "
                "with a bus error.",
                size=size,
            )
            if inside
            else _("Enlarge /dev/shm: when it is full, training ends with a bus error.")
        )
        commands = () if inside else ("envcheck doctor --fix", f"sudo mount -o remount,size={advised_gib}G /dev/shm")
        yield warn_or_fail(
            Status.FAIL if fails else Status.WARN, seen, fix(words, *commands), evidence=_quote_shm_size(there)
        )
    elif there < threshold_bytes(facts, "host.shm.fail_gib"):
        words = _("Enlarge /dev/shm for large jobs (Docker: --shm-size=8g); it is sufficient for a small CPU job.")
        commands = () if is_in_container(facts) else ("envcheck doctor --fix", "sudo mount -o remount,size=8G /dev/shm")
        # job.shm fails, with the size, if the job needs more.
        seen = _(
            "/dev/shm has {size} (minimum {needed})",
            size=format_bytes(there),
            needed=format_bytes(threshold_bytes(facts, "host.shm.fail_gib")),
        )
        yield suppressed_by("job.shm", warn(seen, fix(words, *commands), evidence=_quote_shm_size(there)))
    else:
        yield ok(verbatim(format_bytes(there)))


def check_open_files(facts: Facts) -> Iterator[Finding]:
    """A process may open enough files."""
    soft = (facts.limits or Limits()).open_files_soft
    if facts.limits is None or soft is None:
        yield report_unanswered(facts, "ask limits")
    elif 0 <= soft < threshold_value(facts, "host.open_files.warn_count"):
        hard = facts.limits.open_files_hard or 0
        words = _(
            "Raise the limit in the shell or service that runs the training; in a container, use --ulimit nofile=65536."
        )
        raised = max(hard, soft) if 0 <= hard < 65536 else 65536
        shown = quote_values("getrlimit", open_files_soft=soft, open_files_hard=facts.limits.open_files_hard)
        least = threshold_value(facts, "host.open_files.warn_count")
        yield warn(
            _("up to {soft} open files allowed (minimum {least:g})", soft=soft, least=least),
            fix(words, f"ulimit -n {raised}"),
            evidence=shown,
        )
    else:
        yield ok(_("unlimited") if soft < 0 else _("{soft} open files", soft=soft))


def check_memlock(facts: Facts) -> Iterator[Finding]:
    """A process may lock memory, which RDMA requires."""
    soft = (facts.limits or Limits()).memlock_soft_bytes
    if not facts.vendors:
        yield skip(_("no accelerator found"))
    elif facts.limits is None or soft is None:
        yield report_unanswered(facts, "ask limits")
    elif 0 <= soft < threshold_bytes(facts, "host.memlock.warn_gib"):
        words = _(
            "Raise the limit (Docker: --ulimit memlock=-1) for RDMA between hosts; single-host jobs do not need it."
        )
        shown = quote_values("getrlimit", memlock_soft_bytes=soft)
        least = format_bytes(threshold_bytes(facts, "host.memlock.warn_gib"))
        yield warn(
            _("up to {soft} of locked memory allowed (minimum {least})", soft=format_bytes(soft), least=least),
            fix(words, "ulimit -l unlimited"),
            evidence=shown,
        )
    else:
        yield ok(_("unlimited") if soft < 0 else _("locked memory limit: {soft}", soft=format_bytes(soft)))


def check_kernel(facts: Facts) -> Iterator[Finding]:
    """Drivers can be built for the kernel."""
    release = (facts.host or SystemFacts()).kernel
    found = re.match(r"\d+(\.\d+)+", release or "")
    if facts.host is None or not release:
        yield report_unanswered(facts, "ask host")
    elif not found:
        yield unknown(_("kernel {release}: unknown version format", release=release))
    elif versions.is_at_least(found[0], KERNEL_FLOOR) is False:
        yield warn(
            _("kernel {release} is older than {kernel_floor}", release=release, kernel_floor=KERNEL_FLOOR),
            manual(_("Upgrade the operating system: the vendors' driver installers reject this kernel.")),
            evidence=quote_values("uname", release=release),
        )
    else:
        yield ok(
            _("Linux {release}{system}", release=release, system=_(", {os}", os=facts.host.os) if facts.host.os else "")
        )


def check_architecture(facts: Facts) -> Iterator[Finding]:
    """The vendor publishes wheels and images for this processor."""
    here = (facts.host or SystemFacts()).architecture
    names = [v.vendor for v in facts.vendors] or [VENDORS["cpu"]]
    if not here:
        yield report_unanswered(facts, "ask host")
    elif short := next((n for n in names if here not in n.architectures), None):
        made = join(", ", short.architectures)
        yield fail(
            _("{here}: {title} packages exist only for {made}", here=here, title=short.title, made=made),
            manual(_("Use a host with a supported architecture.")),
            evidence=quote_values("uname", machine=here),
        )
    else:
        yield ok(verbatim(here))


def check_cores(facts: Facts) -> Iterator[Finding]:
    """Each device has enough CPU cores for a rank and its dataloader."""
    count = (facts.host or SystemFacts()).cpu_count
    devices = sum(len(v.devices) for v in facts.vendors)
    if facts.host is None or count is None:
        yield report_unanswered(facts, "ask host")
    elif count < threshold_value(facts, "host.cores.warn_count") * devices:
        words = _("Give the container more CPU cores (--cpus), or use fewer devices: ranks will wait for each other.")
        shown = quote_values("sched_getaffinity", cores=count)
        needed = f"{threshold_value(facts, 'host.cores.warn_count') * devices:g}"
        yield warn(
            _(
                "{count} CPU cores for {devices} devices (minimum {needed})",
                count=count,
                devices=devices,
                needed=needed,
            ),
            diagnose(words, "nproc"),
            evidence=shown,
        )
    else:
        yield ok(
            _(
                "{count} cores{for_devices}",
                count=count,
                for_devices=_(" for {devices} devices", devices=devices) if devices else "",
            )
        )


def check_hugepages(facts: Facts) -> Iterator[Finding]:
    """Reserved huge pages leave enough memory."""
    host = facts.host
    if host is None or host.hugepages_total is None:
        yield report_unanswered(facts, "ask host")
    elif host.hugepages_total == 0:
        yield ok(_("none reserved"))
    elif host.memory_total_bytes is None:
        yield unknown(_("the host memory size is unknown"))
    else:
        reserved = host.hugepages_total * (host.hugepage_bytes or 2 << 20)
        unused = (host.hugepages_free or 0) * (host.hugepage_bytes or 2 << 20)
        if unused > threshold_value(facts, "host.hugepages.warn_percent") / 100 * host.memory_total_bytes:
            words = _(
                "Release the huge pages unless a job needs them: they are unused, and no other "
                "process can use this memory."
            )
            shown = quote_values(
                "/proc/meminfo", HugePages_Total=host.hugepages_total, HugePages_Free=host.hugepages_free
            )
            commands = ("envcheck doctor --fix", "sudo sysctl -w vm.nr_hugepages=0")
            yield warn(
                _(
                    "{unused} of huge pages reserved and unused (limit {percent:g} % of memory)",
                    unused=format_bytes(unused),
                    percent=threshold_value(facts, "host.hugepages.warn_percent"),
                ),
                fix(words, *commands),
                evidence=shown,
            )
        else:
            yield ok(_("{reserved} reserved", reserved=format_bytes(reserved)))


def check_clock(facts: Facts) -> Iterator[Finding]:
    """The clock is synchronized; with a drift, nodes fail to connect and certificates are rejected."""
    answer = facts.answers.get("ask clock")
    if facts.clock_synchronised is None:
        kernel_silent = answer is not None and answer.ok and answer.out.strip().startswith("{")
        yield (
            unknown(_("the kernel does not report whether the clock is synchronized"))
            if kernel_silent
            else report_unanswered(facts, "ask clock")
        )
    elif facts.clock_synchronised:
        yield ok(_("clock is synchronized"))
    elif facts.wanted and facts.wanted.nodes > 1:
        words = _(
            "Start chrony or systemd-timesyncd: all nodes need the same time, and `envcheck train` "
            "compares it when they connect."
        )
        yield warn(_("clock is not synchronized"), fix(words, *_CLOCK), evidence=_UNSYNC)
    elif facts.vendors:
        yield warn(
            _("clock is not synchronized"), fix(_("Start chrony or systemd-timesyncd."), *_CLOCK), evidence=_UNSYNC
        )
    else:
        yield ok(_("clock is not synchronized; a single node does not need it"))


def check_stale_variables(facts: Facts) -> Iterator[Finding]:
    """No variable of another launch is set; PADDLE_* and RANK override the launcher's command line."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    left = [name for name in facts.environment if STALE.match(name)]
    if left:
        seen = _(
            "{variables}{others} are set",
            variables=join(", ", left[:6]),
            others=_(" and {more} more", more=len(left) - 6) if len(left) > 6 else "",
        )
        words = _(
            "Unset these variables, here and in your shell profiles, unless your platform sets them on purpose: "
            "they override the launcher's options."
        )
        shown = tuple(f"environment: {name}={facts.environment[name]}" for name in left[:3])
        commands = (f"unset {' '.join(left)}", "envcheck doctor --fix")  # this shell, then the profiles
        yield warn(seen, fix(words, *commands), evidence=shown)
    else:
        yield ok(_("no such variable is set"))


_CLOCK = ("sudo timedatectl set-ntp true", "timedatectl")
_UNSYNC = quote_values("adjtimex", synchronised="no")


def _quote_shm_size(there: int) -> tuple[str, ...]:
    return quote_values("statvfs /dev/shm", total_bytes=there)


def _free_bytes(facts: Facts, name: str) -> int | None:
    return facts.disks.get(name, Disk()).free_bytes if facts.disks else None


CHECKS: tuple[Check, ...] = (
    machine_check(
        "host.memory",
        check_memory,
        reads="memory",
        source="LlamaFactory#4629",
        rule="WARN below host.memory.warn_gib",
        fix="Stop the programs that use it.",
    ),
    machine_check(
        "host.swap",
        check_swap,
        reads="swap",
        source=mark("threshold set by envcheck"),
        rule="WARN above host.swap.warn_percent",
        fix="Find the program that uses the memory.",
    ),
    machine_check(
        "host.disk",
        check_disk,
        reads="disks",
        source=mark("sizes of paddle and of published models"),
        rule="WARN below host.disk.warn_gib, FAIL below host.disk.fail_gib",
        fix="Free space, or use another directory.",
    ),
    machine_check(
        "host.shm",
        check_shm,
        reads="/dev/shm",
        source="PaddleSpeech#790, LlamaFactory#7315",
        rule=(
            "with devices, WARN below host.shm.warn_gib and FAIL below host.shm.fail_gib; without, WARN below the "
            "latter; for a job with its own size or container, see job.shm"
        ),
        fix="Remount it, for example with doctor --fix; for a container, set --shm-size.",
    ),
    machine_check(
        "host.open_files",
        check_open_files,
        reads="limits",
        source="FLAGS_dataloader_use_file_descriptor",
        rule="WARN below host.open_files.warn_count",
        fix="Raise ulimit -n, or set --ulimit nofile.",
    ),
    machine_check(
        "host.memlock",
        check_memlock,
        reads="limits",
        source="nccl-tests#206",
        rule="WARN below host.memlock.warn_gib, on a host with devices",
        fix="Set ulimit -l, or --ulimit memlock=-1.",
    ),
    machine_check(
        "host.kernel",
        check_kernel,
        reads="kernel",
        source="ascend-deployer README",
        rule="WARN if older than 4.5",
        fix="Use a newer operating system.",
    ),
    machine_check(
        "host.architecture",
        check_architecture,
        reads="architecture",
        source=mark("wheels and images on the vendors' indexes"),
        rule="FAIL if the vendor publishes none",
        fix="Use another host.",
    ),
    machine_check(
        "host.cores",
        check_cores,
        reads="CPU cores, devices",
        source=mark("rule set by envcheck: one rank and one dataloader per device"),
        rule="WARN below host.cores.warn_count per device",
        fix="Give the container more cores, or use fewer devices.",
    ),
    machine_check(
        "host.hugepages",
        check_hugepages,
        reads="/proc/meminfo",
        source=mark("threshold set by envcheck"),
        rule="WARN if the share of memory that is reserved but unused exceeds host.hugepages.warn_percent",
        fix="Lower vm.nr_hugepages, for example with doctor --fix.",
    ),
    machine_check(
        "host.clock",
        check_clock,
        reads="adjtimex",
        source="awsome-distributed-ai#180",
        rule="WARN if not synchronized, on a host with devices or if the job needs several nodes",
        fix="Enable chrony or systemd-timesyncd.",
    ),
    machine_check(
        "host.stale_variables",
        check_stale_variables,
        reads="environment variables",
        source=mark("Paddle#51246; tested with paddle.distributed.launch"),
        rule="WARN if one is set",
        fix="Unset them, for example with doctor --fix.",
    ),
)
