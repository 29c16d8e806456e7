"""The table of checks, and running it.  To add one: a function in its area's file, a line here, four test cases.

A check reads facts and yields findings; the table stamps name and source on them.  Checks do not know each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from envcheck.checks import devices, driver, engine, host, job, links, network, python, toolkit
from envcheck.checks.common import CardJudge, Judge, follows
from envcheck.errors import UsageError
from envcheck.model import Facts, Finding, Remedy, Severity, VendorFacts
from envcheck.vendors import VENDORS

ANY_CARD = ("npu", "iluvatar", "nvidia")


@dataclass(frozen=True)
class Check:
    """One line of the table.

    A check has either `judge` (once a machine) or `judge_card` (once for each vendor in `vendors`); `needs_devices`
    skips it when the tool lists none; `of_job` runs it only when a job is named.
    """

    name: str
    reads: str
    source: str
    judge: Judge | None = None
    judge_card: CardJudge | None = None
    vendors: tuple[str, ...] = ()
    needs_devices: bool = False
    of_job: bool = False

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]

    @property
    def says(self) -> str:
        return ((self.judge or self.judge_card).__doc__ or "").strip()

    @property
    def applies_to(self) -> str:
        return "the named job" if self.of_job else ", ".join(self.vendors) or "every machine"


def _card(name: str, judge: CardJudge, reads: str, source: str, vendors: tuple[str, ...] = ANY_CARD) -> Check:
    return Check(name, reads, source, judge_card=judge, vendors=vendors)


def _dev(name: str, judge: CardJudge, reads: str, source: str, vendors: tuple[str, ...] = ANY_CARD) -> Check:
    return Check(name, reads, source, judge_card=judge, vendors=vendors, needs_devices=True)


def _host(name: str, judge: Judge, reads: str, source: str) -> Check:
    return Check(name, reads, source, judge=judge)


def _job(name: str, judge: Judge, reads: str) -> Check:
    return Check(name, reads, "the recipe", judge=judge, of_job=True)


NPU, ILUVATAR, NVIDIA = ("npu",), ("iluvatar",), ("nvidia",)

CHECKS: tuple[Check, ...] = (
    _card(
        "driver.tool", driver.tool, "the vendor's tool", "vllm-ascend#2698, cann-container-image#46, NVSentinel#1748"
    ),
    _card(
        "driver.whole_answer",
        driver.whole,
        "the vendor's tool",
        "outputs cut off in public reports (gpustack, nyaterm#268)",
    ),
    _card(
        "driver.version",
        driver.version,
        "the vendor's tool, version files",
        "the vendors' and toolkits' version tables",
    ),
    _card(
        "driver.agrees",
        driver.agree,
        "the vendor's tool, version files, /proc",
        "nvidia-container-toolkit#394, gpustack#3256",
    ),
    _card(
        "driver.firmware",
        driver.firmware,
        "firmware and driver version.info, board",
        "compatible_version_fw of version.info",
        NPU,
    ),
    _card(
        "driver.compatible", driver.compatible, "npu-smi info -t board", "npu-smi reference, board: Compatibility", NPU
    ),
    _card("driver.install_record", driver.install_record, "/etc/ascend_install.info", "Ascend container guides", NPU),
    _card("devices.present", devices.present, "the vendor's tool, lspci, /dev", "leptonai/gpud#944"),
    _dev("devices.count", devices.count, "the vendor's tool, lspci, /dev", "leptonai/gpud#944, vllm-ascend#12980"),
    _dev("devices.health", devices.health, "npu-smi info, -t health", "npu-smi reference: words of Health", NPU),
    _dev("devices.ecc", devices.ecc, "the vendor's tool, -t ecc", "npu-smi reference, nvidia-smi manual"),
    _dev("devices.memory", devices.memory, "the vendor's tool", "vllm-ascend#1767, verl#332"),
    _dev("devices.processes", devices.processes, "the vendor's tool", "Ascend/pytorch#166, verl#332"),
    _dev("devices.utilization", devices.utilization, "the vendor's tool", "Paddle#11375"),
    _dev("devices.temperature", devices.temperature, "the vendor's tool", "our margin below the vendors' slow-down"),
    _dev("devices.uniform", devices.uniform, "the vendor's tool", "the slowest device sets the pace"),
    _dev("devices.chips", devices.chips, "ixsmi", "ERNIE's Iluvatar page; ix-device-plugin splitboard", ILUVATAR),
    _dev("devices.mig", devices.mig, "nvidia-smi", "NVIDIA's MIG user guide", NVIDIA),
    _dev("devices.numbering", devices.numbering, "npu-smi info, /dev", "vllm-ascend#8519", NPU),
    _dev(
        "devices.visible",
        devices.visible,
        "the environment",
        "CANN's environment variable reference; ms-swift NPU page, Q7",
    ),
    _dev("links.topology", links.topology, "the tool's topology", "npu-smi reference, nvidia-smi manual"),
    _dev("links.uniform", links.uniform, "the tool's topology", "collectives run at the slowest link"),
    _dev("links.numa", links.numa, "the tool's topology", "ms-swift's NPU page: CPU affinity"),
    _card("toolkit.present", toolkit.present, "toolkit folders", "vllm-ascend#262, llama.cpp#22784", (*NPU, *ILUVATAR)),
    _card("toolkit.single", toolkit.single, "toolkit folders, LD_LIBRARY_PATH", "PaddleX#4749", (*NPU, *ILUVATAR)),
    _card("toolkit.version", toolkit.version, "toolkit version files", "CANN release notes", (*NPU, *ILUVATAR)),
    _card(
        "toolkit.driver",
        toolkit.driver_pair,
        "toolkit and driver versions",
        "CANN release notes; ascend-deployer required_soft",
        NPU,
    ),
    _card(
        "toolkit.environment",
        toolkit.environment,
        "the environment",
        "vllm-ascend#262, gpustack#1101",
        (*NPU, *ILUVATAR),
    ),
    _card("toolkit.atb", toolkit.atb, "/usr/local/Ascend/nnal", "Paddle#68398, Paddle#70878", NPU),
    _card("toolkit.preload", toolkit.preload, "LD_PRELOAD, /usr/local/corex*", "ERNIE's Iluvatar page", ILUVATAR),
    _dev("network.hccn_link", network.hccn_link, "hccn_tool -link", "FaultDiag Comp_Network_Custom", NPU),
    _dev("network.hccn_address", network.hccn_address, "hccn_tool -ip", "FaultDiag Comp_Network_Custom", NPU),
    _dev("network.hccn_health", network.hccn_health, "hccn_tool -net_health", "FaultDiag Comp_Network_Custom", NPU),
    _dev("network.hccn_conf", network.hccn_conf, "/etc/hccn.conf, hccn_tool -ip", "vllm-ascend#16847", NPU),
    _host(
        "network.own_name", network.own_name, "the own name's addresses", "vllm#7074; paddle.distributed.launch, tried"
    ),
    _host("network.interfaces", network.interfaces, "network interfaces", "FlagCX#503"),
    _host(
        "network.named_interfaces", network.named_interfaces, "*_SOCKET_IFNAME, interfaces", "NCCL and FlagCX manuals"
    ),
    _host("host.memory", host.memory, "memory", "LlamaFactory#4629"),
    _host("host.swap", host.swap, "swap", "our threshold"),
    _host("host.disk", host.disk, "disks", "sizes of paddle and of published models"),
    _host("host.shm", host.shm, "/dev/shm", "PaddleSpeech#790, LlamaFactory#7315"),
    _host("host.open_files", host.open_files, "limits", "FLAGS_dataloader_use_file_descriptor"),
    _host("host.memlock", host.memlock, "limits", "nccl-tests#206"),
    _host("host.kernel", host.kernel, "kernel", "ascend-deployer README"),
    _host("host.architecture", host.architecture, "architecture", "wheels and images on the vendors' indexes"),
    _host("host.cores", host.cores, "CPU cores, devices", "our rule: a rank and a dataloader for each device"),
    _host("host.hugepages", host.hugepages, "/proc/meminfo", "our threshold"),
    _host("host.clock", host.clock, "adjtimex", "awsome-distributed-ai#180"),
    _host(
        "host.stale_variables",
        host.stale_variables,
        "the environment",
        "Paddle#51246; paddle.distributed.launch, tried",
    ),
    _host("engine.reachable", engine.reachable, "docker info", "Docker's manual"),
    _host("engine.version", engine.version, "docker info", "moby#42681, OpenSandbox#508"),
    _card("engine.runtime", engine.runtime, "docker info", "mind-cluster gitcode#356, ix-container-toolkit"),
    _host("engine.disk", engine.disk, "docker info, disks", "PaddleOCR-VL's Iluvatar page: 37 to 39 GB images"),
    _host("python.version", python.version, "python3", "paddlepaddle's package metadata"),
    _host("python.paddle", python.paddle, "installed packages", "paddlepaddle's package metadata"),
    _card(
        "python.plugin", python.plugin, "installed packages", "PaddleCustomDevice#1460, Paddle#69403", (*NPU, *ILUVATAR)
    ),
    _card("python.device_build", python.device_build, "installed packages", "LlamaFactory#6461", NVIDIA),
    _host("python.numpy", python.numpy, "installed packages", "tried with paddle 3.1.0 and 3.3.1; vllm-ascend#2210"),
    _card("python.torch_npu", python.torch_npu, "installed packages", "Ascend/pytorch#105, ms-swift#1243", NPU),
    _host("python.triton", python.triton, "installed packages", "paddleformers, tried"),
    _job("job.device", job.device, "the vendor's tool"),
    _job("job.cards", job.cards, "the vendor's tool"),
    _job("job.memory", job.memory, "the vendor's tool, the memory planner"),
    _job("job.architecture", job.architecture, "architecture"),
    _job("job.driver", job.driver, "driver version"),
    _job("job.firmware", job.firmware, "firmware version"),
    _job("job.toolkit", job.toolkit, "toolkit version"),
    _job("job.host_memory", job.host_memory, "memory"),
    _job("job.shm", job.shm, "/dev/shm"),
    _job("job.disk", job.disk, "disks"),
    _job("job.packages", job.packages, "installed packages"),
)


def run_all(facts: Facts, only: Iterable[str] = (), skip: Iterable[str] = ()) -> list[Finding]:
    """The findings of all checks, or of those that `only` names (a check or an area), less `skip`."""
    chosen, left_out = named(only), named(skip)
    checks = [c for c in CHECKS if (not chosen or c.name in chosen) and c.name not in left_out]
    return [_grounded(finding, checks) for check in checks for finding in run(check, facts)]


def _grounded(finding: Finding, checks: Iterable[Check]) -> Finding:
    """What follows from a check that was left out is not told: skipped, it would look as if it did not matter."""
    if not finding.follows or finding.follows in {check.name for check in checks}:
        return finding
    words = "Ask for that one, too."
    remedy = Remedy(words, (f"envcheck doctor --only {finding.follows}",))
    return replace(finding, severity=Severity.UNKNOWN, seen=f"{finding.seen}, which was left out", remedy=remedy)


def run(check: Check, facts: Facts) -> Iterator[Finding]:
    """One check's findings; at least one, unless it belongs to a job and none is named."""
    if check.of_job and facts.wanted is None:
        return
    if check.judge:
        yield from _judged(check, "", facts, check.judge)
        return
    here = [v for v in facts.vendors if v.name in check.vendors]
    for v in here:
        yield from _judged_card(check, facts, v)
    if not here:
        why = (
            "no accelerator"
            if not facts.vendors
            else f"does not apply to {', '.join(VENDORS[v.name].title for v in facts.vendors)}"
        )
        yield Finding(check.name, Severity.SKIP, why)


def _judged_card(check: Check, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    if check.needs_devices and not v.devices:
        silent = v.document is None or (v.document.kind in ("unknown", "error") and not driver.no_device(v))
        cause = "driver.tool" if silent else "devices.present"  # told there, once
        yield replace(follows(cause), name=check.name, device=v.name)
        return
    judge = check.judge_card
    assert judge is not None
    yield from _judged(check, v.name, facts, lambda facts: judge(facts, v))


def _judged(check: Check, device: str, facts: Facts, judge: Judge) -> Iterator[Finding]:
    """A check that crashes is a finding, and so is one that says nothing: neither may look green."""
    try:
        found = list(judge(facts)) or [Finding("", Severity.UNKNOWN, "the check said nothing")]
    except Exception as err:
        found = [Finding("", Severity.UNKNOWN, f"the check crashed: {type(err).__name__}: {err}")]
    for finding in found:
        yield replace(finding, name=check.name, source=check.source, device=device)


def named(names: Iterable[str]) -> set[str]:
    """Names of checks and areas, spelt out; UsageError with the nearest for one that is neither."""
    known, areas, found = {c.name for c in CHECKS}, {c.area for c in CHECKS}, set()
    for name in names:
        if name not in known and name not in areas:
            import difflib

            near = difflib.get_close_matches(name, [*known, *areas], n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}? " if near else ""
            raise UsageError(f"there is no check {name!r}", f"{hint}envcheck doctor --list-checks names all")
        found |= {c.name for c in CHECKS if name in (c.name, c.area)}
    return found
