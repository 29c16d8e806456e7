"""The host: memory, disks, limits, kernel, clock, and variables that an earlier job left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_machine
from envcheck.core.facts import Disk, Facts, Host, Limits
from envcheck.core.findings import (
    fail,
    figures,
    gib,
    graded,
    in_container,
    not_told,
    ok,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Status
from envcheck.settings.thresholds import ADVISED_SHM_GIB, limit, limit_bytes
from envcheck.vendors import VENDORS

KERNEL_FLOOR = "4.5"  # the driver installers refuse older ones (F30)
# paddle.distributed.launch obeys these over its command line; a job platform or an ended job leaves them behind.
STALE = re.compile(
    r"^(PADDLE_(TRAINERS?_\w+|TRAINERS|MASTER|NNODES|RANK\w*|DEVICES|NPROC_PER_NODE|RUN_MODE|IPS|CURRENT_ENDPOINT"
    r"|ELASTIC_\w+|WORKERS_\w+|NUM_GRADIENT_SERVERS|GLOBAL_\w+|LOCAL_\w+)|DISTRIBUTED_TRAINER_ENDPOINTS|POD_IP|FLAGS_START_PORT"
    r"|FLAGS_selected_\w+|(LOCAL_|NODE_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_(ADDR|PORT))$"
)


def memory(facts: Facts) -> Iterator[Finding]:
    """Enough host memory is free."""
    free = (facts.host or Host()).memory_available_bytes
    if facts.host is None or free is None:
        yield not_told(facts, "ask host")
    elif free < limit_bytes(facts, "host.memory.warn_gib"):
        words = "Close what you can: loading a model needs at least its size."
        shown = figures("psutil", memory_available_bytes=free)
        needed = gib(limit_bytes(facts, "host.memory.warn_gib"))
        yield warn(
            f"{gib(free)} free (limit {needed})", words, "ps -eo rss,pid,user,cmd --sort=-rss | head", evidence=shown
        )
    else:
        total = facts.host.memory_total_bytes
        yield ok(f"{gib(free)} free{f' of {gib(total)}' if total else ''}")


def swap(facts: Facts) -> Iterator[Finding]:
    """The host is not swapping."""
    host = facts.host
    if host is None or host.swap_used_bytes is None or host.swap_total_bytes is None:
        yield not_told(facts, "ask host")
    elif host.swap_total_bytes == 0:
        yield skip("no swap")
    elif host.swap_used_bytes > limit(facts, "host.swap.warn_percent") / 100 * host.swap_total_bytes:
        seen = f"{gib(host.swap_used_bytes)} of {gib(host.swap_total_bytes)} in use"
        shown = figures("psutil", swap_used_bytes=host.swap_used_bytes, swap_total_bytes=host.swap_total_bytes)
        yield warn(seen, "Find who holds the memory: it is short, or was.", "free -g", "vmstat 1 5", evidence=shown)
    else:
        yield ok(f"{gib(host.swap_used_bytes)} of {gib(host.swap_total_bytes)} in use")


def disk(facts: Facts) -> Iterator[Finding]:
    """The working folder and envcheck's have room."""
    if facts.disks is None:
        yield not_told(facts, "ask disks")
        return
    told = [(name, free) for name in (".", "home", "/") if (free := _free(facts, name)) is not None]
    if not told:
        yield unknown("no disk tells its free space")
        return
    name, free = min(told, key=lambda pair: pair[1])
    where = {".": "the working folder", "home": "envcheck's folder"}.get(name, name)
    if free < limit_bytes(facts, "host.disk.warn_gib"):
        fails = free < limit_bytes(facts, "host.disk.fail_gib")
        needed = gib(limit_bytes(facts, f"host.disk.{'fail' if fails else 'warn'}_gib"))
        yield graded(
            Status.FAIL if fails else Status.WARN,
            f"{gib(free)} free for {where} (limit {needed})",
            "Free some, or work elsewhere.",
            "df -h .",
            "du -xh . | sort -h | tail",
            evidence=figures(f"statvfs {name}", free_bytes=free),
        )
    else:
        yield ok(f"{gib(free)} free for {where}")


def shm(facts: Facts) -> Iterator[Finding]:
    """/dev/shm is large: dataloaders and collectives exchange data there."""
    there = facts.disks.get("/dev/shm", Disk()).total_bytes if facts.disks else None
    job = facts.wanted
    if job and (job.shm_gib is not None or (job.image and not in_container(facts))):
        yield skip("judged for this job by job.shm")
    elif facts.disks is None or there is None:
        yield not_told(facts, "ask disks")
    elif there < limit_bytes(facts, "host.shm.warn_gib") and facts.vendors:
        fails = there < limit_bytes(facts, "host.shm.fail_gib")
        seen = f"/dev/shm holds {gib(there)} (limit {gib(limit_bytes(facts, 'host.shm.warn_gib'))})"
        inside = in_container(facts)
        size = f"--shm-size={ADVISED_SHM_GIB}g"
        how = f"Start the container anew with {size} or --ipc=host" if inside else "Make it larger"
        words = f"{how}: a full one ends a training with a bus error."
        fix = () if inside else (f"sudo mount -o remount,size={ADVISED_SHM_GIB}G /dev/shm",)
        yield graded(Status.FAIL if fails else Status.WARN, seen, words, *fix, evidence=_shm(there))
    elif there < limit_bytes(facts, "host.shm.fail_gib"):
        words = "Make it larger for a large job (docker: --shm-size=8g); a small one on the CPU has enough."
        fix = () if in_container(facts) else ("sudo mount -o remount,size=8G /dev/shm",)
        # A job that wants more fails, and says how much.
        seen = f"/dev/shm holds {gib(there)} (limit {gib(limit_bytes(facts, 'host.shm.fail_gib'))})"
        yield told_by("job.shm", warn(seen, words, *fix, evidence=_shm(there)))
    else:
        yield ok(gib(there))


def open_files(facts: Facts) -> Iterator[Finding]:
    """A process may open many files."""
    soft = (facts.limits or Limits()).open_files_soft
    if facts.limits is None or soft is None:
        yield not_told(facts, "ask limits")
    elif 0 <= soft < limit(facts, "host.open_files.warn_count"):
        hard = facts.limits.open_files_hard or 0
        words = "Raise it in the shell or service that trains, a container's with --ulimit nofile=65536."
        raised = max(hard, soft) if 0 <= hard < 65536 else 65536
        shown = figures("getrlimit", open_files_soft=soft, open_files_hard=facts.limits.open_files_hard)
        least = limit(facts, "host.open_files.warn_count")
        yield warn(f"at most {soft} open files (limit {least:g})", words, f"ulimit -n {raised}", evidence=shown)
    else:
        yield ok("unlimited" if soft < 0 else f"{soft} open files")


def memlock(facts: Facts) -> Iterator[Finding]:
    """A process may lock memory, as RDMA must."""
    soft = (facts.limits or Limits()).memlock_soft_bytes
    if not facts.vendors:
        yield skip("no accelerator")
    elif facts.limits is None or soft is None:
        yield not_told(facts, "ask limits")
    elif 0 <= soft < limit_bytes(facts, "host.memlock.warn_gib"):
        words = "Raise it (docker: --ulimit memlock=-1) for RDMA between hosts; one host alone can do without."
        shown = figures("getrlimit", memlock_soft_bytes=soft)
        least = gib(limit_bytes(facts, "host.memlock.warn_gib"))
        yield warn(f"at most {gib(soft)} locked (limit {least})", words, "ulimit -l unlimited", evidence=shown)
    else:
        yield ok("unlimited" if soft < 0 else f"{gib(soft)} may be locked")


def kernel(facts: Facts) -> Iterator[Finding]:
    """The kernel is one that drivers build for."""
    release = (facts.host or Host()).kernel
    found = re.match(r"\d+(\.\d+)+", release or "")
    if facts.host is None or not release:
        yield not_told(facts, "ask host")
    elif not found:
        yield unknown(f"kernel {release}: not a version that envcheck can order")
    elif versions.at_least(found[0], KERNEL_FLOOR) is False:
        yield warn(
            f"kernel {release} is older than {KERNEL_FLOOR}",
            "Upgrade the system: the vendors' driver installers refuse this one.",
            "uname -r",
            evidence=figures("uname", release=release),
        )
    else:
        yield ok(f"Linux {release}{f', {facts.host.os}' if facts.host.os else ''}")


def architecture(facts: Facts) -> Iterator[Finding]:
    """The processor is one that wheels and images are made for."""
    here = (facts.host or Host()).architecture
    names = [v.vendor for v in facts.vendors] or [VENDORS["cpu"]]
    if not here:
        yield not_told(facts, "ask host")
    elif short := next((n for n in names if here not in n.architectures), None):
        made = ", ".join(short.architectures)
        yield fail(
            f"{here}, but {short.title}'s packages are made for {made}",
            "Use another host.",
            "uname -m",
            evidence=figures("uname", machine=here),
        )
    else:
        yield ok(here)


def cores(facts: Facts) -> Iterator[Finding]:
    """There are enough CPU cores for a rank and its dataloader on each device."""
    count = (facts.host or Host()).cpu_count
    devices = sum(len(v.devices) for v in facts.vendors)
    if facts.host is None or count is None:
        yield not_told(facts, "ask host")
    elif count < limit(facts, "host.cores.warn_count") * devices:
        words = "Give the container more cores (--cpus), or use fewer devices: ranks will wait for each other."
        shown = figures("sched_getaffinity", cores=count)
        yield warn(f"{count} cores for {devices} devices", words, "nproc", evidence=shown)
    else:
        yield ok(f"{count} cores{f' for {devices} devices' if devices else ''}")


def hugepages(facts: Facts) -> Iterator[Finding]:
    """Reserved huge pages leave the host its memory."""
    host = facts.host
    if host is None or host.hugepages_total is None:
        yield not_told(facts, "ask host")
    elif host.hugepages_total == 0:
        yield ok("none reserved")
    elif host.memory_total_bytes is None:
        yield unknown("the host's memory is not told")
    else:
        reserved = host.hugepages_total * (host.hugepage_bytes or 2 << 20)
        unused = (host.hugepages_free or 0) * (host.hugepage_bytes or 2 << 20)
        if unused > limit(facts, "host.hugepages.warn_percent") / 100 * host.memory_total_bytes:
            words = "Give them back unless a job needs them: nobody uses them, and nothing else may."
            shown = figures("/proc/meminfo", HugePages_Total=host.hugepages_total, HugePages_Free=host.hugepages_free)
            fix = ("sysctl vm.nr_hugepages", "sudo sysctl -w vm.nr_hugepages=0")
            yield warn(f"{gib(unused)} reserved and unused", words, *fix, evidence=shown)
        else:
            yield ok(f"{gib(reserved)} reserved")


def clock(facts: Facts) -> Iterator[Finding]:
    """The clock is synchronised: drift drops nodes from the rendezvous, and certificates fail."""
    answer = facts.answers.get("ask clock")
    if facts.clock_synchronised is None:
        kernel_silent = answer is not None and answer.ok and answer.out.strip().startswith("{")
        yield unknown("the kernel does not say whether it is") if kernel_silent else not_told(facts, "ask clock")
    elif facts.clock_synchronised:
        yield ok("synchronised")
    elif facts.wanted and facts.wanted.nodes > 1:
        words = (
            "Start chrony or systemd-timesyncd: several nodes must agree on the time; train compares it when they meet."
        )
        yield warn("not synchronised", words, *_CLOCK, evidence=_UNSYNC)
    elif facts.vendors:
        yield warn("not synchronised", "Start chrony or systemd-timesyncd.", *_CLOCK, evidence=_UNSYNC)
    else:
        yield ok("not synchronised, which one node does not need")


def stale_variables(facts: Facts) -> Iterator[Finding]:
    """No variable of another launch is set: PADDLE_* and RANK win over the launcher's command line."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    left = [name for name in facts.environment if STALE.match(name)]
    if left:
        seen = f"{', '.join(left[:6])}{f' and {len(left) - 6} more' if len(left) > 6 else ''} set"
        words = "Unset them unless a platform means them: the launcher obeys them over its own options."
        shown = tuple(f"environment: {name}={facts.environment[name]}" for name in left[:3])
        yield warn(seen, words, f"unset {' '.join(left)}", evidence=shown)
    else:
        yield ok("none is set")


_CLOCK = ("timedatectl", "sudo timedatectl set-ntp true")
_UNSYNC = figures("adjtimex", synchronised="no")


def _shm(there: int) -> tuple[str, ...]:
    return figures("statvfs /dev/shm", total_bytes=there)


def _free(facts: Facts, name: str) -> int | None:
    return facts.disks.get(name, Disk()).free_bytes if facts.disks else None


CHECKS: tuple[Check, ...] = (
    of_machine(
        "host.memory",
        memory,
        reads="memory",
        source="LlamaFactory#4629",
        rule="WARN below host.memory.warn_gib",
        fix="Close what holds it.",
    ),
    of_machine(
        "host.swap",
        swap,
        reads="swap",
        source="our threshold",
        rule="WARN above host.swap.warn_percent",
        fix="Find who holds the memory.",
    ),
    of_machine(
        "host.disk",
        disk,
        reads="disks",
        source="sizes of paddle and of published models",
        rule="WARN below host.disk.warn_gib, FAIL below host.disk.fail_gib",
        fix="Free some, or work elsewhere.",
    ),
    of_machine(
        "host.shm",
        shm,
        reads="/dev/shm",
        source="PaddleSpeech#790, LlamaFactory#7315",
        rule="with cards WARN below host.shm.warn_gib and FAIL below host.shm.fail_gib; without, WARN below the "
        "second; a job that names a size, or brings a container, has job.shm",
        fix="Remount it, also by doctor --fix; --shm-size for a container.",
    ),
    of_machine(
        "host.open_files",
        open_files,
        reads="limits",
        source="FLAGS_dataloader_use_file_descriptor",
        rule="WARN below host.open_files.warn_count",
        fix="ulimit -n, --ulimit nofile.",
    ),
    of_machine(
        "host.memlock",
        memlock,
        reads="limits",
        source="nccl-tests#206",
        rule="WARN below host.memlock.warn_gib, where cards are",
        fix="ulimit -l, --ulimit memlock=-1.",
    ),
    of_machine(
        "host.kernel",
        kernel,
        reads="kernel",
        source="ascend-deployer README",
        rule="WARN when it is older than 4.5",
        fix="A newer system.",
    ),
    of_machine(
        "host.architecture",
        architecture,
        reads="architecture",
        source="wheels and images on the vendors' indexes",
        rule="FAIL when the vendor has no packages for it",
        fix="Another host.",
    ),
    of_machine(
        "host.cores",
        cores,
        reads="CPU cores, devices",
        source="our rule: a rank and a dataloader for each device",
        rule="WARN below host.cores.warn_count for each device",
        fix="More cores for the container, or fewer devices.",
    ),
    of_machine(
        "host.hugepages",
        hugepages,
        reads="/proc/meminfo",
        source="our threshold",
        rule="WARN when more of the memory than host.hugepages.warn_percent is reserved and unused",
        fix="Lower vm.nr_hugepages, also by doctor --fix.",
    ),
    of_machine(
        "host.clock",
        clock,
        reads="adjtimex",
        source="awsome-distributed-ai#180",
        rule="WARN when it is not synchronised and cards are there, or several nodes wanted",
        fix="chrony or systemd-timesyncd.",
    ),
    of_machine(
        "host.stale_variables",
        stale_variables,
        reads="the environment",
        source="Paddle#51246; paddle.distributed.launch, tried",
        rule="WARN when one is set",
        fix="Unset them, also by doctor --fix.",
    ),
)
