"""Files and device nodes of a simulated machine, by absolute path."""

from __future__ import annotations

import json
from collections.abc import Mapping

from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate import host_answers, network_answers
from envcheck.vendors import VENDORS

_STATIC = '{"policyName":"static","defaultCpuSet":"0-191","checksum":1}'  # as in kubelet's checkpoint file


def make_files(machine: SimulatedSystem, simulation: VendorSimulation) -> Mapping[str, str]:
    """Return text by path, empty for device nodes and libraries.  The vendor's files replace the system's."""
    driver = machine.driver
    return {
        **_make_system_files(machine),
        **({} if driver is None else dict.fromkeys(host_answers.list_device_nodes(machine), "")),
        **({} if driver is None else simulation.files(machine, driver)),
    }


def _make_system_files(machine: SimulatedSystem) -> dict[str, str]:
    """Return what every machine has and containers mount: homes, kernel headers and kernel modules."""
    kernel = machine.host.kernel
    return {
        "/home/trainer/.profile": "",
        f"/usr/src/linux-headers-{kernel}/Makefile": "",
        f"/lib/modules/{kernel}/modules.dep": "",
        **_make_engine_files(machine),
        **network_answers.FILES,
        **(_make_kubelet_files(machine) if machine.has_fault("cpu-manager") else {}),
    }


def _make_kubelet_files(machine: SimulatedSystem) -> dict[str, str]:
    runtime = VENDORS[machine.vendor].runtime
    containerd = f'[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{runtime}]\n'
    return {"/var/lib/kubelet/cpu_manager_state": _STATIC, "/etc/containerd/config.toml": containerd}


def _make_engine_files(machine: SimulatedSystem) -> dict[str, str]:
    if machine.docker is None:
        return {}
    runtimes = {name: {"path": f"/usr/bin/{name}-container-runtime"} for name in machine.docker.runtimes}
    text = json.dumps({"runtimes": runtimes, "default-runtime": machine.docker.default_runtime})
    return {"/etc/docker/daemon.json": text[:-1] + "," if machine.has_fault("engine-config") else text}
