"""All that differs between vendors, as data.  An `if vendor == ...` elsewhere means that a field is missing here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.model import Device, Question

PER_DEVICE = "{id}"  # stands in a follow-up question for the id of one device
PER_DIE = "{phy}"  # as above, for the physical id of one die: what hccn_tool counts, where npu-smi -i counts NPUs


def _ill(device: Device) -> bool:
    return (device.health or "").upper() != "OK"


def _load_unsaid(device: Device) -> bool:
    return device.utilization_percent is None


def _run(*argv: str, timeout_s: float = 20.0) -> Question:
    return Question("run", argv, timeout_s)


def _read(path: str) -> Question:
    return Question("read", (path,), 5.0)


def _list(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)


@dataclass(frozen=True)
class Vendor:
    """One vendor's names and figures.

    `idle_memory_mib` is what the driver itself holds of an idle device; `plugin_index` the only package index that has
    the plugin; `commands` are ready to paste, by what they are for; `pci_classes` how the classes of accelerators begin
    (pci.ids).  `devices` are the questions that list devices, steadiest first (the first that answers counts);
    `samples` ask for memory, load, power and health alone, every few seconds of a run, where that is cheaper; `details`
    go with them; `per_device` are asked once for each id, `{id}` replaced, where `only_if` names their kind of such
    devices alone: the list has told it of others.  `device_type` is paddle's name for the device, `launch_option` the
    launcher's, `chips_per_card` how many devices the tool lists for a card that is bought.  Cards come into a container
    by names of `cdi_kind`, by the engine's `runtime`, which reads `runtime_env`, or, where `nodes_suffice`, by the
    nodes alone.  The collectives of several devices open ports on the host, from `port_base` or what `port_env` says
    on, as many as `port_spans` has for the toolkit's version (newest first).  `mixes`: they work in one job with other
    vendors' cards; cards that `module_link` joins are a module, and over two modules the collectives want pairs of
    cards.
    A program opens `control_nodes` beside the cards' own; the driver is `kernel_modules` (patterns), any of which shows
    it, and `libraries`: (name, documented place), tried by name first; a container that gets its cards by hand gets
    `driver_mounts` from the host.  Of a site's names for its cards (Slurm's GRES) those are this vendor's that hold one
    of `scheduler_words`, - and _ aside.
    """

    name: str
    title: str
    tool: str
    pci_vendor: str
    node_pattern: str
    visible_env: str
    device_type: str
    launch_option: str
    plugin: str | None
    toolkit: str | None
    runtime: str | None
    chips_per_card: int
    devices: tuple[Question, ...]
    samples: tuple[Question, ...] = ()
    details: tuple[Question, ...] = ()
    per_device: tuple[Question, ...] = ()
    only_if: Mapping[str, Callable[[Device], bool]] = field(default_factory=dict)
    pci_classes: tuple[str, ...] = ("12", "03", "0b4")
    idle_memory_mib: int = 0
    architectures: tuple[str, ...] = ("x86_64", "aarch64")
    toolkit_variables: tuple[str, ...] = ()
    toolkit_folder: str = ""
    plugin_index: str = ""
    runtime_env: str = ""
    cdi_kind: str = ""
    nodes_suffice: bool = False
    port_env: str = ""
    port_base: int = 0
    port_spans: tuple[tuple[str, int], ...] = ()
    mixes: bool = True
    module_link: str = ""
    control_nodes: tuple[str, ...] = ()
    kernel_modules: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    driver_mounts: tuple[str, ...] = ()
    scheduler_words: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def presence(self) -> tuple[Question, ...]:
        """The cheap questions that tell whether such a card is in the machine, tool or no tool."""
        return (_run("lspci", "-nn", "-d", f"{self.pci_vendor}:"), _list(self.node_pattern))


_IX_FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,temperature.gpu,utilization.gpu,"
    "memory.used,memory.total,{power},clocks.sm,clocks.mem"
)


def _ix_query(power: str) -> Question:
    """CoreX 4 calls the field gpu.power.draw, CoreX 3 power.draw; each refuses the other (public inventory scripts)."""
    return _run("ixsmi", f"--query-gpu={_IX_FIELDS.format(power=power)}", "--format=csv")


VENDORS: dict[str, Vendor] = {
    "npu": Vendor(
        name="npu",
        title="Huawei Ascend",
        tool="npu-smi",
        pci_vendor="19e5",
        node_pattern="/dev/davinci[0-9]*",
        visible_env="ASCEND_RT_VISIBLE_DEVICES",
        device_type="npu",
        launch_option="--npus",
        plugin="paddle-custom-npu",
        plugin_index="https://www.paddlepaddle.org.cn/packages/stable/npu/",
        toolkit="CANN",
        runtime="ascend",
        runtime_env="ASCEND_VISIBLE_DEVICES",  # physical ids; the runtime adds the three manager nodes by itself
        nodes_suffice=True,  # Ascend Docker documents: nodes and the driver's folders, by hand
        port_env="HCCL_IF_BASE_PORT",  # CANN's environment variable reference, 8.0 to 9.0
        port_base=60000,
        port_spans=(("8.2.rc1", 32), ("0", 16)),
        control_nodes=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),  # Ascend's container guides
        kernel_modules=("drv_*", "asdrv_*", "davinci*", "ascend*"),  # lsmod in the driver's installation guide: drv_
        libraries=(
            ("libascend_hal.so", "/usr/local/Ascend/driver/lib64/driver/libascend_hal.so"),
            ("libdcmi.so", "/usr/local/dcmi/libdcmi.so"),
            ("libascendcl.so", ""),
            ("libhccl.so", ""),
            ("libatb.so", ""),
        ),
        driver_mounts=("/usr/local/Ascend/driver", "/usr/local/dcmi"),  # or folders below: Ascend's container guides
        module_link="HCCS",  # CANN's environment reference, HCCL_INTRA_PCIE_ENABLE: the same cards of both modules
        mixes=False,  # FlagCX's table of features: HCCL is homogeneous only
        chips_per_card=1,
        devices=(_run("npu-smi", "info"),),
        details=(
            _run("npu-smi", "info", "-m"),
            _run("npu-smi", "info", "-t", "topo"),
            _read("/usr/local/Ascend/driver/version.info"),
            _read("/usr/local/Ascend/firmware/version.info"),
            _read("/etc/ascend_install.info"),
            _read("/etc/hccn.conf"),
            _list("/usr/local/Ascend/ascend-toolkit/[0-9]*"),
            _list("/usr/local/Ascend/cann-[0-9]*"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info"),
            _list("/usr/local/Ascend/ascend-toolkit/set_env.sh"),
            _list("/usr/local/Ascend/nnal/atb/set_env.sh"),
            _read("/usr/local/Ascend/nnal/atb/latest/version.info"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/opp/version.info"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/opp_kernel/version.info"),
            _read("/usr/local/Ascend/ascend-toolkit/latest/compiler/version.info"),
            _list("/usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe/kernel/ascend*/a[a-d]*"),
        ),
        per_device=(
            *(_run("npu-smi", "info", "-t", kind, "-i", PER_DEVICE) for kind in ("board", "usages", "health", "ecc")),
            *(_run("hccn_tool", "-i", PER_DIE, f"-{kind}", "-g") for kind in ("link", "ip", "net_health", "tls")),
        ),
        only_if={"health": _ill, "usages": _load_unsaid},
        pci_classes=("12",),  # Huawei's [0300] is the board's own console (Hi171x), on each Kunpeng server
        toolkit_variables=("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
        toolkit_folder="/usr/local/Ascend",
        idle_memory_mib=4096,  # 3412 MiB on an idle A3 die (driver 24.1.rc3.7), some 3.3 GB on 910B since 24.1
        scheduler_words=("npu", "ascend", "davinci", "atlas", "910"),
        commands={
            "list": ("npu-smi info",),
            "health": ("npu-smi info -t health -i {id}",),
            "ecc": ("npu-smi info -t ecc -i {id}",),
            "topology": ("npu-smi info -t topo",),
            "pci": ("lspci -nn -d 19e5:", "dmesg | grep -i -E 'davinci|drv_pcie'"),
            "driver": (
                "lsmod | grep drv_",
                "ls -l /dev/davinci_manager",
                "/usr/local/Ascend/driver/tools/upgrade-tool --device_index -1 --system_version",
            ),
            "toolkit": ("source /usr/local/Ascend/ascend-toolkit/set_env.sh",),
        },
    ),
    "iluvatar": Vendor(
        name="iluvatar",
        title="Iluvatar CoreX",
        tool="ixsmi",
        pci_vendor="1e3e",
        node_pattern="/dev/iluvatar[0-9]*",
        visible_env="CUDA_VISIBLE_DEVICES",
        device_type="iluvatar_gpu",
        launch_option="--gpus",
        plugin="paddle-iluvatar-gpu",
        plugin_index="https://www.paddlepaddle.org.cn/packages/stable/ixuca/",
        toolkit="CoreX",
        runtime="iluvatar",
        runtime_env="IX_VISIBLE_DEVICES",
        kernel_modules=("iluvatar*",),  # modinfo iluvatar: the driver's own pages
        libraries=(("libixml.so", "/usr/local/corex/lib64/libixml.so"),),
        cdi_kind="iluvatar.com/gpu",  # ix-ctk cdi generate, ix-container-toolkit 1.0.0
        nodes_suffice=True,  # the same toolkit's page on doing it by hand; the image brings CoreX
        chips_per_card=2,  # a BI-V150 card carries two chips of 32 GiB: seed 001 calls the pair one 64 GiB card
        devices=(_ix_query("gpu.power.draw"), _ix_query("power.draw"), _run("ixsmi")),
        details=(
            _run("ixsmi", "topo", "-m"),
            _list("/usr/local/corex*"),
            _list("/usr/local/corex*/lib64/libcuda.so.1"),
        ),
        idle_memory_mib=1024,  # 64 MiB of an idle chip seen with 4.3.0; contexts of a monitor come on top
        toolkit_folder="/usr/local/corex",
        architectures=("x86_64",),  # the plugin's wheels and the driver's run file: x86_64 alone
        scheduler_words=("iluvatar", "corex", "bi100", "biv100", "bi150", "biv150", "mr100", "mrv100"),
        commands={
            "list": ("ixsmi",),
            "health": ("ixsmi -q -i {id}",),
            "ecc": ("ixsmi -q -i {id}",),
            "topology": ("ixsmi topo -m",),
            "pci": ("lspci -nn -d 1e3e:", "dmesg | grep -i iluvatar"),
            "driver": ("lsmod | grep iluvatar", "modinfo iluvatar", "ls -d /usr/local/corex*"),
            "toolkit": (
                "export LD_LIBRARY_PATH=/usr/local/corex/lib64:$LD_LIBRARY_PATH PATH=/usr/local/corex/bin:$PATH",
            ),
        },
    ),
    "nvidia": Vendor(
        name="nvidia",
        title="NVIDIA",
        tool="nvidia-smi",
        pci_vendor="10de",
        node_pattern="/dev/nvidia[0-9]*",
        visible_env="CUDA_VISIBLE_DEVICES",
        device_type="gpu",
        launch_option="--gpus",
        plugin=None,
        toolkit="CUDA",
        runtime="nvidia",
        runtime_env="NVIDIA_VISIBLE_DEVICES",
        cdi_kind="nvidia.com/gpu",
        control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),  # libnvidia-container's list; nvidia-modprobe makes them
        kernel_modules=("nvidia", "nvidia_uvm"),
        libraries=(("libcuda.so.1", ""), ("libnvidia-ml.so.1", "")),
        chips_per_card=1,
        devices=(_run("nvidia-smi", "-q", "-x"), _run("nvidia-smi")),
        samples=(  # a tenth of what -q -x costs
            _run(
                "nvidia-smi",
                "--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,"
                "ecc.errors.uncorrected.volatile.total",
                "--format=csv",
            ),
        ),
        details=(
            _run("nvidia-smi", "topo", "-m"),
            _run("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"),
            _run("nv-fabricmanager", "--version"),
            _run("systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState"),
            _read("/proc/driver/nvidia/version"),
            _list("/dev/char/195:*"),
        ),
        pci_classes=("03",),
        idle_memory_mib=1024,  # the driver reserves some 600 MiB of an idle H200; contexts of a monitor come on top
        scheduler_words=("nvidia", "tesla", "geforce", "v100", "a100", "a800", "h20", "h100", "h800", "b200", "l40"),
        commands={
            "list": ("nvidia-smi",),
            "health": ("nvidia-smi -q -i {id}",),
            "ecc": ("nvidia-smi -q -d ECC,ROW_REMAPPER -i {id}",),
            "topology": ("nvidia-smi topo -m", "nvidia-smi nvlink --status"),
            "pci": ("lspci -nn -d 10de:", "dmesg | grep -i -E 'nvrm|xid'"),
            "driver": ("cat /proc/driver/nvidia/version", "lsmod | grep nvidia", "dkms status"),
        },
    ),
    "cpu": Vendor(
        name="cpu",
        title="no accelerator",
        tool="",
        pci_vendor="",
        node_pattern="",
        visible_env="",
        device_type="cpu",
        launch_option="",
        plugin=None,
        toolkit=None,
        runtime=None,
        chips_per_card=1,
        devices=(),
    ),
}

COLLECTORS = (
    *("host", "disks", "limits", "environment", "network", "clock", "packages"),
    *("caller", "paths", "processes", "kernel", "containers", "libraries", "loader", "rdma", "bus", "rank_table"),
)

# Name, digest of the registry, number of its own: one name should be one image on all machines.
IMAGES = _run(
    *("docker", "images", "--digests", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.Digest}} {{.ID}}"),
    timeout_s=10.0,
)
LIBAIO = (_list("/usr/lib/*/libaio.so*"), _list("/usr/lib64/libaio.so*"))  # Debian's place, and others'
HOST_QUESTIONS: tuple[Question, ...] = (
    *(Question("ask", (name,), 10.0) for name in COLLECTORS),
    *LIBAIO,
    _read("/proc/sys/net/ipv4/ip_local_port_range"),
    _read("/proc/sys/net/ipv4/ip_local_reserved_ports"),
    _read("/etc/docker/daemon.json"),
    _read("/var/lib/kubelet/cpu_manager_state"),
    _read("/etc/containerd/config.toml"),
    IMAGES,
    _run("docker", "info", "--format", "{{json .}}"),
)
