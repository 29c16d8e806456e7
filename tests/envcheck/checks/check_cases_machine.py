# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of the driver's and the toolkit's parts, of who has the devices, of the engine and the user."""

from __future__ import annotations

from typing import Any

from envcheck.core.model import Outcome, Process
from tests.envcheck.checks.check_parts import (
    ATB,
    CANN,
    DOCKER,
    FAIL,
    KERNELS,
    NO_ENV,
    NO_PACKS,
    NO_TOOL,
    TREES,
    WARN,
    Case,
    answer,
    asks,
    both,
    card,
    dev,
    dev0,
    env,
    garbled,
    host,
    job,
    packs,
    stat,
    top,
    unasked,
)

NODE0 = "/dev/davinci0"
NO_TREE = answer(TREES, outcome=Outcome.EMPTY)
UNLOADED = both(card(devices=(), nodes=()), asks("kernel", loaded=[]))
MISSING = {"loads": False, "error": "libx.so: undefined symbol: y", "path": None}
RUNNING: dict[str, Any] = {
    "name": "a",
    "image": "i:1",
    "nodes": [NODE0],
    "visible": {},
    "shm_bytes": 1 << 40,
    "ipc": "private",
    "runtime": "runc",
    "mounts": {"/usr/local/Ascend/driver": "/d", "/usr/local/dcmi": "/d"},
}
HELD = {
    "pid": 77,
    "nodes": [NODE0],
    "name": "python3",
    "uid": 0,
    "parent": 5,
    "state": "S",
    "age_s": 60,
    "container": None,
}
LATEST = "read /usr/local/Ascend/ascend-toolkit/latest"
SHARE = tuple(Process(n, 0, pid, "python3", 90) for n in range(2) for pid in (7, 8))
IN = host(in_container=True)


def running(**changes: Any) -> Any:
    return asks("containers", containers=[{**RUNNING, **changes}])


def held(**changes: Any) -> Any:
    return asks("processes", holding=[{**HELD, **changes}])


def lib(name: str, said: dict[str, Any] | None = None) -> Any:
    return asks("libraries", **{name: said or MISSING})


# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "driver.module": ("npu", UNLOADED, FAIL, both(UNLOADED, card(pci=())), garbled("kernel")),
    "driver.next_kernel": ("npu", asks("kernel", kernels={"5.10.0-60": {"modules": ["drv_x"], "bootable": True}, "5.10.0-100": {"modules": [], "bootable": True}}), WARN, both(IN, asks("kernel", kernels={})), asks("kernel", kernels={"5.10.0-60": {"modules": 7, "bootable": True}})),
    "driver.build_tools": ("npu", both(UNLOADED, asks("kernel", loaded=[], headers=False)), WARN, both(UNLOADED, IN), both(UNLOADED, asks("kernel", loaded=[], headers=None))),
    "driver.secure_boot": ("npu", both(UNLOADED, asks("kernel", loaded=[], secure_boot=True)), WARN, unasked("kernel"), asks("kernel", secure_boot=None)),
    "driver.library": ("npu", lib("libascend_hal.so"), FAIL, unasked("libraries"), garbled("libraries")),
    "driver.dcmi": ("npu", lib("libdcmi.so", {"loads": False, "error": "libdcmi.so: cannot open shared object file", "path": None}), WARN, unasked("libraries"), asks("libraries", **{"libdcmi.so": 7})),
    "driver.dcmi_owner": ("npu", stat("/usr/local/dcmi", mode=0o777), WARN, stat("/usr/local/dcmi/libdcmi.so"), garbled("paths")),
    "driver.mounts": ("npu", stat("/etc/ascend_install.info", kind="folder"), WARN, stat("/etc/ascend_install.info"), garbled("paths")),
    "devices.access": ("npu", stat(NODE0, usable=False), WARN, unasked("caller"), garbled("paths")),
    "devices.control_nodes": ("npu", stat("/dev/hisi_hdc"), FAIL, card(nodes=()), garbled("paths")),
    "devices.shared": ("npu", running(), WARN, both(top(engine=None), IN, answer("ask containers", outcome=Outcome.ABSENT)), garbled("containers")),
    "devices.open_nodes": ("npu", held(), WARN, unasked("processes"), both(card(processes=None), asks("processes", blind=9))),
    "devices.ghosts": ("npu", card(processes=(Process(0, 0, 999, "python3", 90),)), WARN, both(card(processes=(Process(0, 0, 999, "python3", 90),)), asks("caller", host_pids=False)), garbled("processes")),
    "devices.leftovers": ("npu", held(parent=1), WARN, unasked("processes"), garbled("caller")),
    "devices.spread": ("npu", card(processes=SHARE), WARN, NO_TOOL, card(processes=None)),
    "devices.remapped": ("npu", env(ASCEND_RT_VISIBLE_DEVICES="2,3"), WARN, env(ASCEND_RT_VISIBLE_DEVICES=None), NO_ENV),
    "devices.order": ("nvidia", dev0(bus_id="0000:FF:00.0"), WARN, NO_TOOL, dev0(bus_id=None)),
    "devices.generation": ("npu", dev(name="910ProA"), WARN, NO_TOOL, dev0(name=None)),
    "toolkit.loads": ("npu", both(top(engine=None), lib("libhccl.so")), FAIL, NO_TREE, garbled("libraries")),
    "toolkit.copies": ("npu", asks("loader", copies={"libhccl.so": ["/a/libhccl.so", "/b/libhccl.so"]}), WARN, env(LD_LIBRARY_PATH=None), garbled("loader")),
    "toolkit.atb_loads": ("npu", both(IN, lib("libatb.so")), FAIL, answer(ATB, outcome=Outcome.EMPTY), garbled("libraries")),
    "toolkit.nnal": ("npu", answer("read /usr/local/Ascend/nnal/atb/latest/version.info", "Ascend-cann-atb : 8.2.RC1"), WARN, answer(ATB, outcome=Outcome.EMPTY), answer("read /usr/local/Ascend/nnal/atb/latest/version.info", "Ascend-cann-atb : what?")),
    "toolkit.operators": ("npu", both(IN, answer(f"{LATEST}/opp_kernel/version.info", "Version=6.0.0")), FAIL, both(*(answer(f"{LATEST}/{p}/version.info", outcome=Outcome.ABSENT) for p in ("opp", "opp_kernel"))), answer(f"{LATEST}/compiler/version.info", "what")),
    "toolkit.kernels": ("npu", answer(KERNELS, outcome=Outcome.EMPTY), WARN, NO_TREE, answer(KERNELS, "what?")),
    "toolkit.paths": ("npu", asks("paths", named={"LD_LIBRARY_PATH": {f"{CANN}/lib64": False}}), WARN, asks("paths", named={}), garbled("paths")),
    "toolkit.python_path": ("npu", env(PYTHONPATH="/home/me"), WARN, env(LD_LIBRARY_PATH=None), NO_ENV),
    "toolkit.python_packages": ("npu", packs(decorator=None), WARN, packs(torch_npu=None, paddle_custom_npu=None), NO_PACKS),
    "toolkit.corex": ("iluvatar", asks("kernel", versions={"iluvatar": "4.2.0"}), WARN, answer("list /usr/local/corex*", outcome=Outcome.EMPTY), answer("list /usr/local/corex*", "/usr/local/corex")),
    "host.user": ("npu", asks("caller", user=None), WARN, unasked("caller"), garbled("caller")),
    "engine.settings": ("npu", answer("read /etc/docker/daemon.json", "{,"), WARN, answer("read /etc/docker/daemon.json", outcome=Outcome.ABSENT), answer("read /etc/docker/daemon.json", outcome=Outcome.FAILED)),
    "engine.runc": ("npu", stat("/usr/bin/runc", mode=0o777), WARN, stat("/usr/bin/runc"), garbled("paths")),
    "engine.shm": ("npu", running(shm_bytes=64 << 20), WARN, unasked("containers"), garbled("containers")),
    "engine.driver_mounts": ("npu", running(mounts={"/data": "/data"}), WARN, unasked("containers"), garbled("containers")),
    "engine.keeps_cards": ("nvidia", answer("list /dev/char/195:*", outcome=Outcome.EMPTY), WARN, top(engine=None), answer(DOCKER, "??")),
    "engine.pods": ("npu", answer("read /etc/containerd/config.toml", "# ascend\n"), WARN, answer("read /var/lib/kubelet/cpu_manager_state", outcome=Outcome.ABSENT), answer("read /etc/containerd/config.toml", outcome=Outcome.FAILED)),
    "engine.cpu_manager": ("npu", answer("read /var/lib/kubelet/cpu_manager_state", '{"policyName": "static"}'), WARN, answer("read /var/lib/kubelet/cpu_manager_state", outcome=Outcome.ABSENT), answer("read /var/lib/kubelet/cpu_manager_state", "[")),
    "python.preload": ("npu", asks("loader", preload={"/x/libjemalloc.so": None}), WARN, asks("loader", preload={}), garbled("loader")),
    "python.libstdcxx": ("npu", asks("loader", standard={"path": "/c/lib/libstdc++.so.6", "gives": "3.4.19"}), WARN, asks("loader", wants={}), asks("loader", standard=None)),
    "python.openmp": ("npu", host(architecture="aarch64"), WARN, unasked("loader"), garbled("loader")),
    "python.import_without_driver": ("npu", card(nodes=(), devices=()), WARN, packs(torch_npu=None), both(card(nodes=(), devices=()), packs(torch="git"))),
    "job.image_pinned": ("npu", job(image="quay.io/ascend/cann"), WARN, job(image=None), job(image="quay.io/a b")),
    "job.image_chips": ("npu", job(image="quay.io/ascend/cann:8.5.0-a3-py311"), FAIL, job(image=None), both(job(image="quay.io/a:1-a3"), dev(name=None))),
}  # fmt: skip
