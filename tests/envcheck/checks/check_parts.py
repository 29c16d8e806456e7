"""Machines as facts, and changes to them, for the tests of checks: facts are built, not parsed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from envcheck.collect.questions import LIBAIO
from envcheck.core.facts import (
    Disk,
    EngineFacts,
    Facts,
    Interface,
    Limits,
    MachineRequirements,
    Network,
    Packages,
    ScriptVerdict,
    SystemFacts,
    VendorFacts,
)
from envcheck.core.model import Answer, Device, Document, Outcome, Status, Topology
from envcheck.vendors import VENDORS

GIB = 1 << 30
SCRIPT = ScriptVerdict("q.sh", is_file=True)  # of a user's own job
NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
N = 4
VERSION_FILE = "read /usr/local/Ascend/driver/version.info"
FIRMWARE_FILE = "read /usr/local/Ascend/firmware/version.info"
INSTALL_FILE = "read /etc/ascend_install.info"
CONFIG = "read /usr/local/Ascend/ascend-toolkit/latest/version.cfg"
TREES = "list /usr/local/Ascend/ascend-toolkit/[0-9]*"
ATB = "list /usr/local/Ascend/nnal/atb/set_env.sh"
COREX, PRELOADS = "list /usr/local/corex*", "list /usr/local/corex*/lib64/libcuda.so.1"
DOCKER = "run docker info --format {{json .}}"
LIBCUDA = "/usr/local/corex-4.3.0/lib64/libcuda.so.1"
CANN = "/usr/local/Ascend/ascend-toolkit/8.0.RC1"
KERNELS = "list /usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe/kernel/ascend*/a[a-d]*"
_LATEST = "/usr/local/Ascend/ascend-toolkit/latest"
FILES = {
    "read /usr/local/Ascend/nnal/atb/latest/version.info": "  Ascend-cann-atb : 8.0.RC1\n  Platform : x86_64\n",
    **{f"read {_LATEST}/{part}/version.info": "Version=7.3.0.1.231\n" for part in ("compiler", "opp", "opp_kernel")},
    KERNELS: KERNELS.removeprefix("list ").replace("ascend*/a[a-d]*", "ascend910b/add"),
    "read /etc/docker/daemon.json": '{"runtimes": {"ascend": {"path": "/usr/bin/ascend-docker-runtime"}}}',
    "read /etc/containerd/config.toml": "[runtimes.ascend]\n[runtimes.iluvatar]\n[runtimes.nvidia]\n",
    "read /var/lib/kubelet/cpu_manager_state": '{"policyName": "none", "checksum": 1}',
    "list /dev/char/195:*": "/dev/char/195:0",
    "run lspci -nn -d 10de:": "00:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335]",
    "read /proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
    "read /proc/sys/net/ipv4/ip_local_reserved_ports": "60000-60031",
    **{f"run hccn_tool -i {n} -tls -g": f"dev_id:{n}, tls switch[0](0:disable, 1:enable)" for n in range(N)},
}
Change = Callable[[Facts], Facts]


def make_answer(key: str, out: str = "x", outcome: Outcome = Outcome.ANSWERED, **more: Any) -> Answer:
    return Answer(key, outcome, out if outcome is Outcome.ANSWERED else "", **more)


NAMES = {"npu": "910B3", "iluvatar": "Iluvatar BI-V150", "nvidia": "NVIDIA H200", "xpu": "P800 OAM"}
MODULES = {"npu": "drv_devmng_host", "iluvatar": "iluvatar", "nvidia": "nvidia", "xpu": "kunlun"}
DRIVERS = {"npu": "24.1.rc1", "iluvatar": "4.3.0", "nvidia": "570.124.06", "xpu": "5.0.21.26"}


def make_fields(**pairs: object) -> Document:
    return Document("npu-smi", "x", detail={"fields": {k.replace("_", " "): v for k, v in pairs.items()}})


def make_device(n: int, vendor: str) -> Device:
    numbers: dict[str, Any] = {"npu": n, "chip": 0, "health": "OK"} if vendor == "npu" else {"index": n}
    name = NAMES[vendor]
    more = {"ecc_uncorrected": 0, "mig_mode": "Disabled"} if vendor == "nvidia" else {}
    return Device(
        name=name,
        bus_id=f"0000:{n:02X}:00.0",
        temperature_c=40,
        utilization_percent=0,
        memory_used_mib=60,
        memory_total_mib=65536,
        **numbers,
        **more,
    )


def make_topology(relation: Callable[[int, int], str | None]) -> Topology:
    names = [f"D{n}" for n in range(N)]
    matrix = {a: {b: "X" if a == b else relation(i, j) for j, b in enumerate(names)} for i, a in enumerate(names)}
    near = {name: str(n // 2) for n, name in enumerate(names)}
    return Topology(tuple(names), (), matrix, near, near)


def make_device_documents() -> dict[int, dict[str, Document]]:
    zero = {"HBM_Double_Bit_Error_Count": 0, "HBM_Double_Bit_Aggregate_Total_Err_Cnt": 0}
    return {
        n: {
            "board": make_fields(Compatibility="OK", Firmware_Version="7.1.0.6.220"),
            "ecc": make_fields(**zero),
            "link": make_fields(link_status="UP"),
            "ip": make_fields(ipaddr=f"10.0.0.{n}"),
            "net_health": make_fields(net_health_status="Success"),
        }
        for n in range(N)
    }


def make_collector_answers(vendor: str, nodes: str) -> dict[str, dict[str, Any]]:
    """Return the collector results of a machine with these properties."""
    own = [*(f"{nodes}{n}" for n in range(N)), *VENDORS[vendor].control_nodes]
    folders = ("/", "/usr", "/usr/local", "/usr/local/dcmi")
    files = ("/usr/local/dcmi/libdcmi.so", "/usr/bin/runc", "/etc/ascend_install.info", "/usr/local/bin/ixsmi")
    module = MODULES[vendor]
    return {
        "caller": {"uid": 0, "gid": 0, "groups": [0], "user": "root", "capabilities": "1ff", "host_pids": True},
        "paths": {
            "paths": {
                **{path: make_node("char", 0o666) for path in own},
                **{path: make_node("folder", 0o755) for path in folders},
                **{path: make_node("file", 0o755) for path in files},
            },
            "named": {"LD_LIBRARY_PATH": {f"{CANN}/lib64": True, "/usr/local/corex-4.3.0/lib64": True}},
        },
        "processes": {"pids": [1, 4242], "blind": 0, "holding": []},
        "kernel": {
            "running": "5.10.0-60",
            "loaded": [module],
            "versions": {module: DRIVERS[vendor]},
            "kernels": {"5.10.0-60": {"modules": [module], "bootable": True}},
            "headers": True,
            "tools": {"gcc": True, "make": True, "dkms": True},
            "secure_boot": False,
        },
        "containers": {"error": None, "containers": []},
        "loader": {
            "preload": {LIBCUDA: {"machine": "x86_64", "soname": "libcuda.so.1"}},
            "standard": {"path": "/usr/lib64/libstdc++.so.6", "gives": "3.4.30"},
            "wants": {"/site/paddle/base/libpaddle.so": "3.4.22"},
            "copies": {},
            "openmp": ["/site/scikit_learn.libs/libgomp-1.so"],
        },
        "rdma": {"devices": {}, "verbs": []},
        "bus": {"cards": {f"0000:{n:02x}:00.0": {"iommu": "identity", "switches": {}} for n in range(N)}},
        "rank_table": {"path": None, "error": None, "count": None, "servers": []},
        "libraries": {name: {"loads": True, "error": "", "path": None} for name, _ in VENDORS[vendor].libraries},
    }


def make_node(kind: str, mode: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "mode": mode, "uid": 0, "gid": 0, "usable": True, "target": None, **more}


def make_healthy_facts(vendor: str) -> Facts:
    """A machine with four devices of the vendor on which every check that applies is content."""
    tool, nodes = VENDORS[vendor].tool, VENDORS[vendor].node_pattern.partition("[")[0]
    driver = DRIVERS[vendor]
    devices = tuple(make_device(n, vendor) for n in range(N))
    v = VendorFacts(
        VENDORS[vendor],
        tool=make_answer(f"run {tool}", "a table"),
        document=Document(tool, "table", driver, driver, devices=devices),
        devices=devices,
        processes=(),
        topology=make_topology(lambda a, b: "HCCS"),
        pci=tuple(f"{n:02x}:00.0" for n in range(N)),
        nodes=tuple(f"{nodes}{n}" for n in range(N)),
        documents={
            VERSION_FILE: replace(
                make_fields(compatible_version_fw="[7.0.0,8.9.9]"),
                driver_version=driver,
                detail={"fields": {"compatible_version_fw": "[7.0.0,8.9.9]"}},
            ),
            FIRMWARE_FILE: Document(tool, "firmware-version", detail={"firmware_version": "7.1.0.6.220"}),
            INSTALL_FILE: Document(
                tool, "install-info", detail={"fields": {"Driver_Install_Path_Param": "/usr/local/Ascend"}}
            ),
            CONFIG: Document(tool, "version-cfg", detail={"cann_version": "8.0.RC1"}),
        }
        if vendor == "npu"
        else {},
        per_device=make_device_documents() if vendor == "npu" else {},
    )
    answers = [
        make_answer(INSTALL_FILE),
        make_answer(TREES, CANN),
        make_answer("list /usr/local/Ascend/cann-[0-9]*", outcome=Outcome.EMPTY),
        make_answer(ATB, "/usr/local/Ascend/nnal/atb/set_env.sh"),
        make_answer(COREX, "/usr/local/corex-4.3.0"),
        make_answer(PRELOADS, LIBCUDA),
        make_answer("read /etc/hccn.conf", "".join(f"address_{n}=10.0.0.{n}\n" for n in range(N))),
        make_answer(DOCKER, '{"CgroupDriver": "systemd"}'),
        *(make_answer(f"run hccn_tool -i {n} -{kind} -g") for n in range(N) for kind in ("link", "ip", "net_health")),
        *(make_answer(key, text) for key, text in FILES.items()),
        *(make_answer(question.key, "/usr/lib64/libaio.so.1") for question in LIBAIO),
        *(
            make_answer(f"ask {name}", json.dumps(value))
            for name, value in make_collector_answers(vendor, nodes).items()
        ),
    ]
    return Facts(
        device=vendor,
        vendors=(v,),
        host=SystemFacts(
            "h", "5.10.0-60", "x86_64", "Linux", 64, 512 * GIB, 500 * GIB, 8 * GIB, 0, 8, 8, 2 << 20, 2, 0, False
        ),
        disks={p: Disk(900 * GIB, 800 * GIB) for p in ("/", ".", "home", "/dev/shm", "/var/lib/docker")},
        limits=Limits(65536, 65536, -1, -1),
        environment={
            VENDORS[vendor].visible_env: "0,1,2,3",
            "ASCEND_HOME_PATH": CANN,
            "LD_LIBRARY_PATH": f"{CANN}/lib64" if vendor == "npu" else "/usr/local/corex-4.3.0/lib64",
            "LD_PRELOAD": LIBCUDA,
            "NCCL_SOCKET_IFNAME": "eth",
            "ATB_HOME_PATH": "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0",
            "PYTHONPATH": f"/megatron:{CANN}/python/site-packages",
            "MEGATRON_LM_PATH": "/megatron",
        },
        network=Network(
            ("10.0.0.9",), {"lo": Interface(("127.0.0.1",), 65536, True), "eth0": Interface(("10.0.0.9",), 1500, True)}
        ),
        clock_synchronised=True,
        packages=Packages("3.10.14", "/usr/bin/python3", make_packages(vendor), ()),
        engine=EngineFacts("26.1.3", ("runc", "ascend", "iluvatar", "nvidia", "xpu"), "runc", "/var/lib/docker"),
        answers={a.key: a for a in answers},
    )


def make_packages(vendor: str) -> dict[str, str]:
    frameworks = {"paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0", "paddle-iluvatar-gpu": "3.1.0"}
    build = VENDORS[vendor].paddle_build
    built = {build: "3.1.0"} if build else frameworks
    bridge = {"triton": "3.3", "paddleformers": "0.3.1", "use-triton-in-paddle": "0.1"}
    torch = {"torch": "2.7.1", "torch-npu": "2.7.1.post2"} if vendor == "npu" else {}
    compiler = dict.fromkeys(("attrs", "cffi", "decorator", "protobuf", "psutil", "pyyaml", "scipy", "sympy"), "1.0")
    return {
        **built,
        **bridge,
        **compiler,
        "numpy": "1.26.4",
        **torch,
        "deepspeed": "0.17",
    }


def change_facts(**changes: Any) -> Change:
    return lambda facts: replace(facts, **changes)


def change_vendor(**changes: Any) -> Change:
    return lambda facts: replace(facts, vendors=(replace(facts.vendors[0], **changes),))


def change_devices(**changes: Any) -> Change:
    """All devices changed."""
    return lambda facts: change_vendor(devices=tuple(replace(d, **changes) for d in facts.vendors[0].devices))(facts)


def change_first_device(**changes: Any) -> Change:
    """The first device changed."""
    return lambda facts: change_vendor(
        devices=(replace(facts.vendors[0].devices[0], **changes), *facts.vendors[0].devices[1:])
    )(facts)


def change_document(**changes: Any) -> Change:
    return lambda facts: change_vendor(document=replace(facts.vendors[0].document or Document("", ""), **changes))(
        facts
    )


def change_device_documents(kind: str, what: Document | None) -> Change:
    """One kind of follow-up changed on each device; None takes it away."""

    def change(facts: Facts) -> Facts:
        before = facts.vendors[0].per_device
        return change_vendor(
            per_device={n: {k: v for k, v in ({**kinds, kind: what}).items() if v} for n, kinds in before.items()}
        )(facts)

    return change


def change_answer(key: str, out: str = "x", outcome: Outcome = Outcome.ANSWERED) -> Change:
    return lambda facts: replace(facts, answers={**facts.answers, key: make_answer(key, out, outcome)})


def change_collector(name: str, **changes: Any) -> Change:
    """A collector's answer changed at its top level."""

    def change(facts: Facts) -> Facts:
        key = f"ask {name}"
        return change_answer(key, json.dumps({**json.loads(facts.answers[key].out), **changes}))(facts)

    return change


def drop_collectors(*names: str) -> Change:
    """Collectors that were never asked: an old recording."""
    keys = {f"ask {name}" for name in names}
    return lambda facts: replace(facts, answers={k: a for k, a in facts.answers.items() if k not in keys})


def garble_collectors(*names: str) -> Change:
    return apply_changes(*(change_answer(f"ask {name}", "[1, {") for name in names))


def change_path(path: str, **changes: Any) -> Change:
    """Change a path; without a value, remove it."""

    def change(facts: Facts) -> Facts:
        seen = json.loads(facts.answers["ask paths"].out)["paths"]
        new = {**seen, path: {**seen.get(path, make_node("file", 0o755)), **changes}}
        return change_collector("paths", paths=new if changes else {p: one for p, one in seen.items() if p != path})(
            facts
        )

    return change


def change_vendor_document(key: str, what: Document | None) -> Change:
    def change(facts: Facts) -> Facts:
        documents = {**facts.vendors[0].documents, key: what}
        return change_vendor(documents={k: v for k, v in documents.items() if v})(facts)

    return change


def change_environment(**values: str | None) -> Change:
    return lambda facts: replace(
        facts, environment={k: v for k, v in {**(facts.environment or {}), **values}.items() if v is not None}
    )


def change_host(**changes: Any) -> Change:
    return lambda facts: replace(facts, host=replace(facts.host or SystemFacts(), **changes))


def change_packages(**versions: str | None) -> Change:
    """Packages changed, `_` for `-`; None takes one away."""
    new = {k.replace("_", "-"): v for k, v in versions.items()}
    return lambda facts: replace(
        facts, packages=Packages("3.10.14", "", {k: v for k, v in {**read_packages(facts), **new}.items() if v})
    )


def read_packages(facts: Facts) -> Mapping[str, str]:
    return facts.packages.packages if facts.packages else {}


def change_disk(path: str, size: int | None) -> Change:
    return lambda facts: replace(facts, disks={**(facts.disks or {}), path: Disk(size, size)})


def apply_changes(*changes: Change) -> Change:
    def change(facts: Facts) -> Facts:
        for one in changes:
            facts = one(facts)
        return facts

    return change


def make_job_change(**changes: Any) -> Change:
    wanted = MachineRequirements(
        "r",
        "lora",
        "npu",
        cards=4,
        memory_gib=64,
        architectures=("x86_64",),
        driver_minimum="23.0.3",
        toolkit_minimum="8.0.RC1",
        firmware_minimum="7.1.0",
        host_memory_gib=100,
        shm_gib=16,
        disk_gib=100,
        packages=(("paddlepaddle", ">=3.1"),),
    )
    return lambda facts: replace(facts, wanted=replace(wanted, **changes))


NO_TOOL = change_vendor(document=None, devices=(), tool=make_answer("run npu-smi info", outcome=Outcome.ABSENT))
JUNK = change_vendor(document=Document("npu-smi", "unknown"), devices=(), tool=make_answer("run npu-smi info", "??"))
DEAD = apply_changes(NO_TOOL, change_vendor(pci=None, nodes=None))
NO_HOST, NO_ENV, NO_PACKS = change_facts(host=None), change_facts(environment=None), change_facts(packages=None)
HCCN_ABSENT = apply_changes(
    *(
        change_answer(f"run hccn_tool -i {n} -{k} -g", outcome=Outcome.ABSENT)
        for n in range(N)
        for k in ("link", "ip", "net_health")
    )
)
ODD = make_topology(lambda a, b: "SYS" if 3 in (a, b) else "HCCS")
UNEVEN = replace(
    make_topology(lambda a, b: "HCCS"), cpu_affinity={"D0": "0", "D1": "0", "D2": "0", "D3": "1"}, numa_affinity={}
)
EMPTY_CARD, NOTHING = Document("npu-smi", "unknown"), Document("npu-smi", "board", detail={"fields": {}})
NONE = change_vendor(devices=())

# vendor, wrong and how bad, absent, unreadable.
Case = tuple[str, Change, Status, Change, Change]
