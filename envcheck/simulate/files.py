"""The files and device nodes that go with a vendor's driver and toolkit, by absolute path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from envcheck.core.simulate.machine import Driver, Machine
from envcheck.simulate import hccn_tool, host_answers, network
from envcheck.vendors import VENDORS

_ASCEND = "/usr/local/Ascend"
_STATIC = '{"policyName":"static","defaultCpuSet":"0-191","checksum":1}'  # the shape of kubelet's checkpoint file
_PARTS = ("runtime", "compiler", "hccl", "opp", "toolkit", "aoe", "ncs", "opp_kernel")


def files(machine: Machine) -> Mapping[str, str]:
    """Path → text; empty for device nodes and libraries."""
    return _system(machine) | ({} if machine.driver is None else _FILES[machine.vendor](machine, machine.driver))


def _system(machine: Machine) -> dict[str, str]:
    """What every machine has, and containers mount: homes, headers and modules of the kernel."""
    kernel = machine.host.kernel
    return {
        "/home/trainer/.profile": "",
        f"/usr/src/linux-headers-{kernel}/Makefile": "",
        f"/lib/modules/{kernel}/modules.dep": "",
        **_engine(machine),
        **network.files(machine),
        **(_kubelet(machine) if machine.is_amiss("cpu-manager") else {}),
    }


def _kubelet(machine: Machine) -> dict[str, str]:
    runtime = VENDORS[machine.vendor].runtime
    containerd = f'[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{runtime}]\n'
    return {"/var/lib/kubelet/cpu_manager_state": _STATIC, "/etc/containerd/config.toml": containerd}


def _engine(machine: Machine) -> dict[str, str]:
    if machine.docker is None:
        return {}
    runtimes = {name: {"path": f"/usr/bin/{name}-container-runtime"} for name in machine.docker.runtimes}
    text = json.dumps({"runtimes": runtimes, "default-runtime": machine.docker.default_runtime})
    return {"/etc/docker/daemon.json": text[:-1] + "," if machine.is_amiss("engine-config") else text}


def _ascend(machine: Machine, driver: Driver) -> dict[str, str]:
    toolkit = _toolkit(machine, driver) if driver.toolkit else {}
    return {
        **_nodes(machine),
        **toolkit,
        **({} if machine.tool.missing else {"/usr/local/bin/npu-smi": ""}),
        "/usr/local/dcmi/libdcmi.so": "",
        "/var/log/npu/slog/README": "",
        f"{_ASCEND}/driver/lib64/driver/libascend_hal.so": "",
        f"{_ASCEND}/driver/version.info": _driver_info(driver),
        f"{_ASCEND}/firmware/version.info": _firmware_info(driver),
        **_install_record(machine),
        "/etc/hccn.conf": hccn_tool.configuration(machine),
    }


def _driver_info(driver: Driver) -> str:
    """The package's own word, so after an upgrade without a reboot it is ahead of the loaded module."""
    firmware = f"compatible_version_fw=[{','.join(driver.firmware_range)}]\n" if driver.firmware_range else ""
    return (
        f"Version={driver.tool}\nascendhal_version=7.35.23\naicpu_version=1.0\ntdt_version=1.0\nlog_version=1.0\n"
        f"prof_version=2.0\ndvppkernels_version=1.1\ntsfw_version=1.0\n{firmware}package_version={driver.tool}\n"
    )


def _firmware_info(driver: Driver) -> str:
    branches = {"23.0", "24.1", "25.0", ".".join(driver.tool.split(".")[:2])}
    ranges = ",".join(f"[{branch},{branch}.]" for branch in sorted(branches))
    return (
        f"Version={driver.firmware}\nfirmware_version=1.0\npackage_version={driver.tool}\n"
        f"compatible_version_drv={ranges}\n"
    )


def _nodes(machine: Machine) -> dict[str, str]:
    """Of the cards and beside them; made by the module, and gone with it."""
    vendor = VENDORS[machine.vendor]
    own = [host_answers.node(machine, chip) for chip in machine.chips]
    return {} if machine.is_amiss("module-gone") else dict.fromkeys((*own, *vendor.control_nodes), "")


def _install_record(machine: Machine) -> dict[str, str]:
    """An engine makes a folder of a mounted file that is not there."""
    path = "/etc/ascend_install.info"
    return {f"{path}/.made": ""} if machine.is_amiss("mount-folder") else {path: _install_info()}


def _install_info() -> str:
    lines = ["UserName=HwHiAiUser", "UserGroup=HwHiAiUser"]
    for part in ("Driver", "Firmware"):
        lines += [f"{part}_Install_Type=full", f"{part}_Install_Path_Param={_ASCEND}"]
    return "\n".join([*lines, "Driver_Install_For_All=yes", "Driver_Install_Mode=normal", ""])


def _toolkit(machine: Machine, driver: Driver) -> dict[str, str]:
    """One tree, seen under its version and under `latest`."""
    arch, base = f"{machine.host.architecture}-linux", f"{_ASCEND}/ascend-toolkit"
    version = f"[{driver.toolkit_inner}:{driver.toolkit}]"
    states = ("running", "upgrade", "installed")
    config = "".join(f"{part}_{state}_version={version}\n" for state in states for part in _PARTS)
    info = (
        f"package_name=Ascend-cann-toolkit\nversion={driver.toolkit}\ninnerversion={driver.toolkit_inner}\n"
        f"arch={machine.host.architecture}\nos=linux\npath={base}/{driver.toolkit}/{arch}\n"
    )
    script = f"export ASCEND_HOME_PATH={base}/latest\n"
    opp = "6.0.0" if machine.is_amiss("opp-other") else driver.toolkit_inner
    atb = "7.0.0" if machine.is_amiss("nnal-other") else driver.toolkit
    operator = "ops_oam" if machine.is_amiss("kernels-missing") else "add"  # without the kernels package: oam alone
    kernels = "opp/built-in/op_impl/ai_core/tbe/kernel"
    tree = {
        "version.cfg": "# version: 1.0\n" + config,
        f"{arch}/ascend_toolkit_install.info": info,
        "compiler/version.info": f"Version={driver.toolkit_inner}\nversion_dir={driver.toolkit}\n",
        **{f"{part}/version.info": f"Version={opp}\n" for part in ("opp", "opp_kernel")},
        f"{kernels}/{_soc(machine)}/{operator}/{operator}.json": "",
    }
    return {
        **{f"{base}/{top}/{path}": text for top in (driver.toolkit, "latest") for path, text in tree.items()},
        f"{base}/set_env.sh": script,
        f"{_ASCEND}/nnal/atb/set_env.sh": f"export ATB_HOME_PATH={_ASCEND}/nnal/atb/latest\n",
        f"{_ASCEND}/nnal/atb/latest/version.info": f"  Ascend-cann-atb : {atb}\n  Platform : any\n",
    }


def _soc(machine: Machine) -> str:
    """The folder's name for the chip: A3's are 910_93 (torch_npu's and CANN's list of SoC versions)."""
    assert machine.devices is not None
    return "ascend910b" if "910B" in machine.devices.name else "ascend910_93"


def _corex(machine: Machine, driver: Driver) -> dict[str, str]:
    """The tree that the libraries came in, under its version and, as the installer links it, without."""
    tree = "3.1.0" if machine.is_amiss("corex-other") else driver.tool
    folders = (f"/usr/local/corex-{tree}", "/usr/local/corex")
    return {
        **_nodes(machine),
        **{f"{folder}/lib64/{library}": "" for folder in folders for library in ("libcuda.so.1", "libixml.so")},
    }


def _nvidia(machine: Machine, driver: Driver) -> dict[str, str]:
    kind = "Open Kernel Module for x86_64" if driver.open_module else "x86_64 Kernel Module"
    module = f"NVRM version: NVIDIA UNIX {kind}  {driver.version}  Wed Feb 26 02:10:37 UTC 2025\n"
    compiler = "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
    if machine.is_amiss("module-gone"):
        return {}
    links = {f"/dev/char/195:{chip.index}": "" for chip in machine.chips}
    return {**_nodes(machine), **links, "/proc/driver/nvidia/version": module + compiler}


_FILES: dict[str, Callable[[Machine, Driver], dict[str, str]]] = {
    "npu": _ascend,
    "iluvatar": _corex,
    "nvidia": _nvidia,
}
