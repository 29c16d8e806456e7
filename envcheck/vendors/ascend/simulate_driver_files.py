"""The files of Ascend's driver and CANN by absolute path, and the modes that checks read."""

from __future__ import annotations

from envcheck.core.simulate.machine import SimulatedDriver, SimulatedSystem
from envcheck.core.simulate.vendor_simulation import PathMode
from envcheck.vendors.ascend import simulate_hccn_tool

_ASCEND = "/usr/local/Ascend"
_PARTS = ("runtime", "compiler", "hccl", "opp", "toolkit", "aoe", "ncs", "opp_kernel")
_RESERVED_PORTS = "60000-60031"  # the ports of HCCL


def make_driver_files(machine: SimulatedSystem, driver: SimulatedDriver) -> dict[str, str]:
    """Return text by path; the text is empty for libraries."""
    toolkit = _make_toolkit_files(machine, driver) if driver.toolkit else {}
    return {
        **toolkit,
        **({} if machine.tool.missing else {"/usr/local/bin/npu-smi": ""}),
        "/usr/local/dcmi/libdcmi.so": "",
        "/var/log/npu/slog/README": "",
        f"{_ASCEND}/driver/lib64/driver/libascend_hal.so": "",
        f"{_ASCEND}/driver/version.info": _render_driver_info(driver),
        f"{_ASCEND}/firmware/version.info": _render_firmware_info(driver),
        **_make_install_record(machine),
        "/etc/hccn.conf": simulate_hccn_tool.render_hccn_conf(machine),
        "/proc/sys/net/ipv4/ip_local_reserved_ports": f"{_format_reserved_ports(machine)}\n",
    }


def list_path_modes(machine: SimulatedSystem) -> dict[str, PathMode]:
    """Return the modes of the paths whose owner and mode are checked; root owns all of them."""
    folders = ("/usr/local/dcmi", _ASCEND, f"{_ASCEND}/driver", f"{_ASCEND}/driver/lib64")
    return {
        **dict.fromkeys(folders, PathMode("folder", 0o755)),
        f"{_ASCEND}/driver/version.info": PathMode("file", 0o644),
        "/etc/hccn.conf": PathMode("file", 0o640),
        "/etc/ascend_install.info": PathMode("folder" if machine.has_fault("mount-folder") else "file", 0o644),
        "/usr/local/dcmi/libdcmi.so": PathMode("file", 0o666 if machine.has_fault("dcmi-writable") else 0o550),
    }


def _format_reserved_ports(machine: SimulatedSystem) -> str:
    return "" if machine.has_fault("ports-open") else _RESERVED_PORTS


def _render_driver_info(driver: SimulatedDriver) -> str:
    """Return version.info of the package: after an upgrade without a reboot it is newer than the loaded module."""
    firmware = f"compatible_version_fw=[{','.join(driver.firmware_range)}]\n" if driver.firmware_range else ""
    return (
        f"Version={driver.tool_version}\nascendhal_version=7.35.23\naicpu_version=1.0\ntdt_version=1.0\nlog_version=1.0\n"
        f"prof_version=2.0\ndvppkernels_version=1.1\ntsfw_version=1.0\n{firmware}package_version={driver.tool_version}\n"
    )


def _render_firmware_info(driver: SimulatedDriver) -> str:
    branches = {"23.0", "24.1", "25.0", ".".join(driver.tool_version.split(".")[:2])}
    ranges = ",".join(f"[{branch},{branch}.]" for branch in sorted(branches))
    return (
        f"Version={driver.firmware}\nfirmware_version=1.0\npackage_version={driver.tool_version}\n"
        f"compatible_version_drv={ranges}\n"
    )


def _make_install_record(machine: SimulatedSystem) -> dict[str, str]:
    """Return the install record; with mount-folder a folder, as an engine creates for a missing mounted file."""
    path = "/etc/ascend_install.info"
    return {f"{path}/.made": ""} if machine.has_fault("mount-folder") else {path: _render_install_info()}


def _render_install_info() -> str:
    lines = ["UserName=HwHiAiUser", "UserGroup=HwHiAiUser"]
    for part in ("Driver", "Firmware"):
        lines += [f"{part}_Install_Type=full", f"{part}_Install_Path_Param={_ASCEND}"]
    return "\n".join([*lines, "Driver_Install_For_All=yes", "Driver_Install_Mode=normal", ""])


def _make_toolkit_files(machine: SimulatedSystem, driver: SimulatedDriver) -> dict[str, str]:
    """Return one tree, under its version and under `latest`."""
    arch, base = f"{machine.host.architecture}-linux", f"{_ASCEND}/ascend-toolkit"
    version = f"[{driver.toolkit_inner}:{driver.toolkit}]"
    states = ("running", "upgrade", "installed")
    config = "".join(f"{part}_{state}_version={version}\n" for state in states for part in _PARTS)
    info = (
        f"package_name=Ascend-cann-toolkit\nversion={driver.toolkit}\ninnerversion={driver.toolkit_inner}\n"
        f"arch={machine.host.architecture}\nos=linux\npath={base}/{driver.toolkit}/{arch}\n"
    )
    script = f"export ASCEND_HOME_PATH={base}/latest\n"
    opp = "6.0.0" if machine.has_fault("opp-other") else driver.toolkit_inner
    atb = "7.0.0" if machine.has_fault("nnal-other") else driver.toolkit
    operator = (
        "ops_oam" if machine.has_fault("kernels-missing") else "add"
    )  # without the kernels package only ops_oam exists
    kernels = "opp/built-in/op_impl/ai_core/tbe/kernel"
    tree = {
        "version.cfg": "# version: 1.0\n" + config,
        f"{arch}/ascend_toolkit_install.info": info,
        "compiler/version.info": f"Version={driver.toolkit_inner}\nversion_dir={driver.toolkit}\n",
        **{f"{part}/version.info": f"Version={opp}\n" for part in ("opp", "opp_kernel")},
        f"{kernels}/{_kernel_folder(machine)}/{operator}/{operator}.json": "",
    }
    return {
        **{f"{base}/{top}/{path}": text for top in (driver.toolkit, "latest") for path, text in tree.items()},
        f"{base}/set_env.sh": script,
        f"{_ASCEND}/nnal/atb/set_env.sh": f"export ATB_HOME_PATH={_ASCEND}/nnal/atb/latest\n",
        f"{_ASCEND}/nnal/atb/latest/version.info": f"  Ascend-cann-atb : {atb}\n  Platform : any\n",
    }


def _kernel_folder(machine: SimulatedSystem) -> str:
    """Return the chip's folder name: 910_93 for A3 (SoC versions of torch_npu and CANN)."""
    assert machine.devices is not None
    return "ascend910b" if "910B" in machine.devices.name else "ascend910_93"
