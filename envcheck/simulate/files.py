"""The files and device nodes of a simulated machine, by absolute path."""

from __future__ import annotations

import json
from collections.abc import Mapping

from envcheck.core.simulate.machine import Machine
from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.simulate import host_answers, network
from envcheck.vendors import VENDORS

_STATIC = '{"policyName":"static","defaultCpuSet":"0-191","checksum":1}'  # the shape of kubelet's checkpoint file


def files(machine: Machine, simulation: VendorSimulation) -> Mapping[str, str]:
    """Path → text; empty for device nodes and libraries.  The vendor's files win over the system's."""
    driver = machine.driver
    return {
        **_system(machine),
        **({} if driver is None else dict.fromkeys(host_answers.device_nodes(machine), "")),
        **({} if driver is None else simulation.files(machine, driver)),
    }


def _system(machine: Machine) -> dict[str, str]:
    """What every machine has, and containers mount: homes, headers and modules of the kernel."""
    kernel = machine.host.kernel
    return {
        "/home/trainer/.profile": "",
        f"/usr/src/linux-headers-{kernel}/Makefile": "",
        f"/lib/modules/{kernel}/modules.dep": "",
        **_engine(machine),
        **network.FILES,
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
