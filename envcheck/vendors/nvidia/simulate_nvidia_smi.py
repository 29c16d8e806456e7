"""nvidia-smi in the format of 550 and 570; its XML is in simulate_nvidia_xml, -q in simulate_nvidia_query."""

from __future__ import annotations

import time

from envcheck.core.simulate.machine import SimulatedChip, SimulatedDevices, SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.query_columns import build_query_columns
from envcheck.core.simulate.query_text import make_query_replies
from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram
from envcheck.core.simulate.topology import format_matrix
from envcheck.vendors.nvidia.simulate_nvidia_query import TYPES, describe_query
from envcheck.vendors.nvidia.simulate_nvidia_xml import render_xml
from envcheck.vendors.nvidia.simulate_nvlink import make_nvlink_reply

_FULL = "+" + "-" * 89 + "+"
_CELLS = "+" + "+".join("-" * width for width in (41, 24, 22)) + "+"
_MIG_CELLS = "+" + "+".join("-" * width for width in (18, 34, 11, 23)) + "+"
_HEAD = (
    "|" + "+".join("-" * width for width in (41, 24, 22)) + "+",
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|" + "+".join("=" * width for width in (41, 24, 22)) + "|",
)
_MIG_HEAD = (
    "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |",
    "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
    "|                  |                                  |        ECC|                       |",
)
_PROCESSES = (
    f"|{' Processes:':<89}|",
    f"|{'  GPU   GI   CI        PID   Type   Process name':<78}GPU Memory |",
    f"|{'        ID   ID':<78}Usage      |",
    "|" + "=" * 89 + "|",
)
_EMPTY = ProgramReply("No devices were found\n", status=6)
_USAGE = ProgramReply("ERROR: Option is not recognized. Please run 'nvidia-smi -h' for help.\n", status=2)
_HELP = ProgramReply(
    "nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n"
    "    -h, --help             Print usage information and exit.\n"
    "    -L                     Display a list of GPUs connected to the system.\n"
    "    -q                     Display GPU info.\n"
    "    -x                     Produce XML output, with -q.\n"
    "    -d TYPE                Display only selected information, with -q.\n"
    "    -i ID                  Target a specific GPU.\n"
    "    --query-gpu=FIELDS     Information about GPUs, with --format=csv.\n"
    "    topo -m, nvlink -s     Links between GPUs.\n\n"
    "This simulated nvidia-smi supports only these options.\n"
)


def mismatch_reply(library: str) -> ProgramReply:
    """Return the answer to every query if the kernel module is older than the library; the exit status is 18."""
    number = ".".join(library.split(".")[:2])
    return ProgramReply(
        f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {number}\n", status=18
    )


def make_nvidia_smi(machine: SimulatedSystem, now: float) -> SimulatedProgram:
    """Return the executable with its answers at the time `now` (seconds since 1970)."""
    assert machine.driver is not None and machine.devices is not None
    make, driver = machine.devices, machine.driver
    stamp = time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(now))
    replies = dict.fromkeys(("", "-q -x", "-x -q", "-L", "topo -m"), _EMPTY)
    if machine.listed_chips:
        xml = ProgramReply(render_xml(machine, make, driver, stamp))
        replies = {"": ProgramReply(f"{stamp:<31}\n{_render_table(machine, make, driver)}"), "-q -x": xml, "-x -q": xml}
        replies |= {"-L": ProgramReply(_render_list(machine, make)), "topo -m": ProgramReply(format_matrix(machine))}
        replies |= make_query_replies(describe_query(machine, make, driver, stamp), *TYPES)
        replies |= dict.fromkeys(("nvlink --status", "nvlink -s"), make_nvlink_reply(machine))
        replies |= {f"-i {n} -mig 0": _disable_mig(chip, make) for n, chip in enumerate(machine.listed_chips)}
    replies |= {"-h": _HELP, "--help": _HELP}
    replies["--version"] = ProgramReply(
        f"NVIDIA-SMI version  : {driver.tool_version}\n"
        f"NVML version        : {'.'.join(driver.tool_version.split('.')[:2])}\n"
        f"DRIVER version      : {driver.version}\nCUDA Version        : {driver.cuda}\n"
    )
    return SimulatedProgram(
        "nvidia-smi", replies, (("", _USAGE),), ("", "-q -x", "-x -q"), build_query_columns(machine)
    )


def _disable_mig(chip: SimulatedChip, make: SimulatedDevices) -> ProgramReply:
    """Return the answer to -mig 0; the machine stays as described."""
    done = f"Disabled MIG Mode for GPU {chip.bus_id}\n"
    refused = f"Unable to disable MIG Mode for GPU {chip.bus_id}: Not Supported\nTreating as warning and moving on.\n"
    return ProgramReply((done if make.ecc else refused) + "All done.\n")


def _render_list(machine: SimulatedSystem, make: SimulatedDevices) -> str:
    lines = []
    for n, chip in enumerate(machine.listed_chips):
        lines.append(f"GPU {n}: {make.name} (UUID: {chip.uuid})")
        for i, part in enumerate(machine.mig):
            lines.append(
                f"  MIG {part.profile:<11} Device {i:>2}: (UUID: MIG-{chip.uuid[4:-4]}{part.gpu_instance:04d})"
            )
    return "\n".join(lines) + "\n"


def _render_table(machine: SimulatedSystem, make: SimulatedDevices, driver: SimulatedDriver) -> str:
    banner = f" NVIDIA-SMI {driver.tool_version:<23}Driver Version: {driver.version:<15}CUDA Version: {driver.cuda}"
    lines = [_FULL, f"|{banner:<89.89}|", *_HEAD]
    for n, chip in enumerate(machine.listed_chips):
        lines += [*_device_rows(n, chip, make, bool(machine.mig)), _CELLS]
    if machine.mig:
        lines += [
            "",
            _FULL,
            f"|{' MIG devices:':<89}|",
            _MIG_CELLS,
            *_MIG_HEAD,
            "|" + _MIG_CELLS.replace("-", "=")[1:-1] + "|",
        ]
        for n in range(len(machine.listed_chips)):
            lines += _mig_rows(n, machine)
    return "\n".join([*lines, "", _FULL, *_PROCESSES, *_process_rows(machine), _FULL]) + "\n"


def _device_rows(n: int, chip: SimulatedChip, make: SimulatedDevices, mig: bool) -> tuple[str, str, str]:
    """|   0  NVIDIA A100-PCIE-40GB          On  |   00000000:06:00.0 Off |                    0 |
    | N/A   56C    P0            244W /  250W |    2323MiB /  40960MiB |    100%   E. Process |
    |                                         |                        |             Disabled |"""
    fan = "N/A" if make.fan_percent is None else f"{make.fan_percent}%"
    ecc = "On" if mig else f"{chip.ecc_uncorrected}" if make.ecc else "Off"
    power = "N/A" if chip.power_w is None else f"{chip.power_w:.0f}W"
    memory = f"{f'{chip.memory_used_mib}MiB':>11} / {f'{make.memory_mib}MiB':>9}"
    busy = "N/A" if mig else f"{97 if chip.holders else 0}%"
    heat = f"{fan:>4}{f'{chip.temperature_c}C':>6}{make.perf_state:>6}{power:>16} / {f'{make.power_limit_w}W':>5} "
    state = "Enabled" if mig else "Disabled" if make.ecc else "N/A"
    return (
        f"| {n:>3}  {make.name:<30.30}{'On':>3}  |   {chip.bus_id} Off |{ecc:>21} |",
        f"|{heat}|{memory} |{busy:>8}  {'Default':>11} |",
        f"|{'':41}|{'':24}|{state:>21} |",
    )


def _mig_rows(n: int, machine: SimulatedSystem) -> list[str]:
    lines = []
    for i, part in enumerate(machine.mig):
        place = f" {n:>2}{part.gpu_instance:>5}   0{i:>4}  "
        memory = f"{'37MiB':>19} / {f'{part.memory_mib}MiB':<12}"
        engines = f"{part.copy_engines:>3}   0  {part.decoders:>3}    0    0"
        lines += [
            f"|{place}|{memory}|{part.multiprocessors:>3}      0 |{engines:<23}|",
            f"|{'':18}|{'0MiB':>19}{' / 65535MiB':<15}|{'':11}|{'':23}|",
            _MIG_CELLS,
        ]
    return lines


def _process_rows(machine: SimulatedSystem) -> list[str]:
    instance = str(machine.mig[0].gpu_instance) if machine.mig else "N/A"
    rows = [
        f"|{n:>5}   {instance:<3}  {'0' if machine.mig else 'N/A':<3}{held.pid:>10}{'C':>7}   "
        f"{held.name:<40}{f'{held.memory_mib}MiB':>12} |"
        for n, chip in enumerate(machine.listed_chips)
        for held in chip.holders
    ]
    return rows or [f"|{'  No running processes found':<89}|"]
