# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of the driver's and the toolkit's parts, of who has the devices, of the engine and the user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envcheck.core.messages import verbatim
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
    SCRIPT,
    TREES,
    WARN,
    Case,
    apply_changes,
    change_answer,
    change_collector,
    change_devices,
    change_document,
    change_environment,
    change_facts,
    change_first_device,
    change_host,
    change_packages,
    change_path,
    change_vendor,
    drop_collectors,
    garble_collectors,
    make_job_change,
)

SWIFT = "quay.io/ascend/ms-swift:v4.3.0-A2-py311-CANN9.0.0-ubuntu22.04"
NODE0 = "/dev/davinci0"
NO_TREE = change_answer(TREES, outcome=Outcome.EMPTY)
UNLOADED = apply_changes(change_vendor(devices=(), nodes=()), change_collector("kernel", loaded=[]))
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
IN = change_host(in_container=True)


def change_container(**changes: Any) -> Any:
    return change_collector("containers", containers=[{**RUNNING, **changes}])


def change_holder(**changes: Any) -> Any:
    return change_collector("processes", holding=[{**HELD, **changes}])


def change_library(name: str, said: dict[str, Any] | None = None) -> Any:
    return change_collector("libraries", **{name: said or MISSING})


# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "driver.module": ("npu", UNLOADED, FAIL, apply_changes(UNLOADED, change_vendor(pci=())), garble_collectors("kernel")),
    "driver.next_kernel": ("npu", change_collector("kernel", kernels={"5.10.0-60": {"modules": ["drv_x"], "bootable": True}, "5.10.0-100": {"modules": [], "bootable": True}}), WARN, apply_changes(IN, change_collector("kernel", kernels={})), change_collector("kernel", kernels={"5.10.0-60": {"modules": 7, "bootable": True}})),
    "driver.build_tools": ("npu", apply_changes(UNLOADED, change_collector("kernel", loaded=[], headers=False)), WARN, apply_changes(UNLOADED, IN), apply_changes(UNLOADED, change_collector("kernel", loaded=[], headers=None))),
    "driver.secure_boot": ("npu", apply_changes(UNLOADED, change_collector("kernel", loaded=[], secure_boot=True)), WARN, drop_collectors("kernel"), change_collector("kernel", secure_boot=None)),
    "driver.library": ("npu", change_library("libascend_hal.so"), FAIL, drop_collectors("libraries"), garble_collectors("libraries")),
    "driver.dcmi": ("npu", change_library("libdcmi.so", {"loads": False, "error": "libdcmi.so: cannot open shared object file", "path": None}), WARN, drop_collectors("libraries"), change_collector("libraries", **{"libdcmi.so": 7})),
    "driver.dcmi_owner": ("npu", change_path("/usr/local/dcmi", mode=0o777), WARN, change_path("/usr/local/dcmi/libdcmi.so"), garble_collectors("paths")),
    "driver.mounts": ("npu", change_path("/etc/ascend_install.info", kind="folder"), WARN, change_path("/etc/ascend_install.info"), garble_collectors("paths")),
    "devices.access": ("npu", change_path(NODE0, usable=False), WARN, drop_collectors("caller"), garble_collectors("paths")),
    "devices.control_nodes": ("npu", change_path("/dev/hisi_hdc"), FAIL, change_vendor(nodes=()), garble_collectors("paths")),
    "devices.shared": ("npu", change_container(), WARN, apply_changes(change_facts(engine=None), IN, change_answer("ask containers", outcome=Outcome.ABSENT)), garble_collectors("containers")),
    "devices.open_nodes": ("npu", change_holder(), WARN, drop_collectors("processes"), apply_changes(change_vendor(processes=None), change_collector("processes", blind=9))),
    "devices.ghosts": ("npu", change_vendor(processes=(Process(0, 0, 999, "python3", 90),)), WARN, apply_changes(change_vendor(processes=(Process(0, 0, 999, "python3", 90),)), change_collector("caller", host_pids=False)), garble_collectors("processes")),
    "devices.leftovers": ("npu", change_holder(parent=1), WARN, drop_collectors("processes"), garble_collectors("caller")),
    "devices.spread": ("npu", change_vendor(processes=SHARE), WARN, NO_TOOL, change_vendor(processes=None)),
    "devices.remapped": ("npu", change_environment(ASCEND_RT_VISIBLE_DEVICES="2,3"), WARN, change_environment(ASCEND_RT_VISIBLE_DEVICES=None), NO_ENV),
    "devices.order": ("nvidia", change_first_device(bus_id="0000:FF:00.0"), WARN, NO_TOOL, change_first_device(bus_id=None)),
    "devices.generation": ("npu", change_devices(name="910ProA"), WARN, NO_TOOL, change_first_device(name=None)),
    "toolkit.loads": ("npu", apply_changes(change_facts(engine=None), change_library("libhccl.so")), FAIL, NO_TREE, garble_collectors("libraries")),
    "toolkit.copies": ("npu", change_collector("loader", copies={"libhccl.so": ["/a/libhccl.so", "/b/libhccl.so"]}), WARN, change_environment(LD_LIBRARY_PATH=None), garble_collectors("loader")),
    "toolkit.atb_loads": ("npu", apply_changes(IN, change_library("libatb.so")), FAIL, change_answer(ATB, outcome=Outcome.EMPTY), garble_collectors("libraries")),
    "toolkit.nnal": ("npu", change_answer("read /usr/local/Ascend/nnal/atb/latest/version.info", "Ascend-cann-atb : 8.2.RC1"), WARN, change_answer(ATB, outcome=Outcome.EMPTY), change_answer("read /usr/local/Ascend/nnal/atb/latest/version.info", "Ascend-cann-atb : what?")),
    "toolkit.operators": ("npu", apply_changes(IN, change_answer(f"{LATEST}/opp_kernel/version.info", "Version=6.0.0")), FAIL, apply_changes(*(change_answer(f"{LATEST}/{p}/version.info", outcome=Outcome.ABSENT) for p in ("opp", "opp_kernel"))), change_answer(f"{LATEST}/compiler/version.info", "what")),
    "toolkit.kernels": ("npu", change_answer(KERNELS, outcome=Outcome.EMPTY), WARN, NO_TREE, change_answer(KERNELS, "what?")),
    "toolkit.paths": ("npu", change_collector("paths", named={"LD_LIBRARY_PATH": {f"{CANN}/lib64": False}}), WARN, change_collector("paths", named={}), garble_collectors("paths")),
    "toolkit.python_path": ("npu", change_environment(PYTHONPATH="/home/me"), WARN, change_environment(LD_LIBRARY_PATH=None), NO_ENV),
    "toolkit.python_packages": ("npu", change_packages(decorator=None), WARN, change_packages(torch_npu=None, paddle_custom_npu=None), NO_PACKS),
    "toolkit.corex": ("iluvatar", change_collector("kernel", versions={"iluvatar": "4.2.0"}), WARN, change_answer("list /usr/local/corex*", outcome=Outcome.EMPTY), change_answer("list /usr/local/corex*", "/usr/local/corex")),
    "host.user": ("npu", change_collector("caller", user=None), WARN, drop_collectors("caller"), garble_collectors("caller")),
    "engine.settings": ("npu", change_answer("read /etc/docker/daemon.json", "{,"), WARN, change_answer("read /etc/docker/daemon.json", outcome=Outcome.ABSENT), change_answer("read /etc/docker/daemon.json", outcome=Outcome.FAILED)),
    "engine.runc": ("npu", change_path("/usr/bin/runc", mode=0o777), WARN, change_path("/usr/bin/runc"), garble_collectors("paths")),
    "engine.shm": ("npu", change_container(shm_bytes=64 << 20), WARN, drop_collectors("containers"), garble_collectors("containers")),
    "engine.driver_mounts": ("npu", change_container(mounts={"/data": "/data"}), WARN, drop_collectors("containers"), garble_collectors("containers")),
    "engine.keeps_cards": ("nvidia", change_answer("list /dev/char/195:*", outcome=Outcome.EMPTY), WARN, change_facts(engine=None), change_answer(DOCKER, "??")),
    "engine.pods": ("npu", change_answer("read /etc/containerd/config.toml", "# ascend\n"), WARN, change_answer("read /var/lib/kubelet/cpu_manager_state", outcome=Outcome.ABSENT), change_answer("read /etc/containerd/config.toml", outcome=Outcome.FAILED)),
    "engine.cpu_manager": ("npu", change_answer("read /var/lib/kubelet/cpu_manager_state", '{"policyName": "static"}'), WARN, change_answer("read /var/lib/kubelet/cpu_manager_state", outcome=Outcome.ABSENT), change_answer("read /var/lib/kubelet/cpu_manager_state", "[")),
    "python.preload": ("npu", change_collector("loader", preload={"/x/libjemalloc.so": None}), WARN, change_collector("loader", preload={}), garble_collectors("loader")),
    "python.libstdcxx": ("npu", change_collector("loader", standard={"path": "/c/lib/libstdc++.so.6", "gives": "3.4.19"}), WARN, change_collector("loader", wants={}), change_collector("loader", standard=None)),
    "python.openmp": ("npu", change_host(architecture="aarch64"), WARN, drop_collectors("loader"), garble_collectors("loader")),
    "python.import_without_driver": ("npu", change_vendor(nodes=(), devices=()), WARN, change_packages(torch_npu=None), apply_changes(change_vendor(nodes=(), devices=()), change_packages(torch="git"))),
    "job.script": ("npu", make_job_change(script=replace(SCRIPT, mistakes=(verbatim("q.sh:2: MASTER_ADDR"),))), FAIL, make_job_change(script=None), make_job_change(script=replace(SCRIPT, unread=verbatim("tree-sitter-bash"), unread_remedy=verbatim("pip install x")))),
    "job.programs": ("npu", make_job_change(script=replace(SCRIPT, absent=(verbatim("torchrun"),))), FAIL, make_job_change(script=None), make_job_change(script=replace(SCRIPT, unsure=(verbatim("q.sh:3: conda"),)))),
    "job.image_pinned": ("npu", make_job_change(image="quay.io/ascend/cann"), WARN, make_job_change(image=None), make_job_change(image="quay.io/a b")),
    "job.image_versions": ("npu", apply_changes(make_job_change(image=SWIFT), change_document(driver_version="24.1.0")), FAIL, make_job_change(image=None), apply_changes(make_job_change(image=SWIFT), change_document(driver_version="?"))),
    "job.image_chips": ("npu", make_job_change(image="quay.io/ascend/cann:8.5.0-a3-py311"), FAIL, make_job_change(image=None), apply_changes(make_job_change(image="quay.io/a:1-a3"), change_devices(name=None))),
}  # fmt: skip
