"""Iluvatar GPUs: ixsmi, CoreX."""

from __future__ import annotations

from envcheck.core.messages import _
from envcheck.core.model import Question
from envcheck.core.vendor import Vendor, list_question, run_question

_IX_FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,temperature.gpu,utilization.gpu,"
    "memory.used,memory.total,{power},clocks.sm,clocks.mem"
)


def _query_question(power: str) -> Question:
    """Return the query; CoreX 4 names the field gpu.power.draw, CoreX 3 power.draw, and each rejects the other.

    Source: public inventory scripts.
    """
    return run_question("ixsmi", f"--query-gpu={_IX_FIELDS.format(power=power)}", "--format=csv")


VENDOR = Vendor(
    name="iluvatar",
    package=__name__,
    title=_("Iluvatar CoreX"),
    driver_downloads=("x86_64",),
    aliases=("iluvatar-corex", "iluvatar_corex", "corex", "iluvatar_gpu", "gpu"),
    tool="ixsmi",
    parser="probes.smi.ixsmi",
    pci_vendor="1e3e",
    node_pattern="/dev/iluvatar[0-9]*",
    visible_env="CUDA_VISIBLE_DEVICES",
    variable_prefixes=("ILUVATAR", "IX", "CUDA", "NCCL"),
    device_type="iluvatar_gpu",
    launch_option="--gpus",
    torch_device="cuda",
    torch_backend="nccl",
    plugin="paddle-iluvatar-gpu",
    plugin_index="https://www.paddlepaddle.org.cn/packages/stable/ixuca/",
    toolkit="CoreX",
    runtime="iluvatar",
    runtime_env="IX_VISIBLE_DEVICES",
    kernel_modules=("iluvatar*",),  # modinfo iluvatar: the driver's own pages
    libraries=(("libixml.so", "/usr/local/corex/lib64/libixml.so"),),
    driver_libraries=("libixml.so",),
    driver_files=("/usr/local/bin/ixsmi",),
    cdi_kind="iluvatar.com/gpu",  # ix-ctk cdi generate, ix-container-toolkit 1.0.0
    # The same toolkit's page on device options, and FlagOS's Iluvatar images; the image contains CoreX.  There is no
    # control node: the vendor's device plugin passes only /dev/iluvatarN to a pod.
    nodes_suffice=True,
    chips_per_card=2,  # a BI-V150 card has two chips of 32 GiB; ERNIE's Iluvatar guide calls the pair one 64 GiB card
    devices=(_query_question("gpu.power.draw"), _query_question("power.draw"), run_question("ixsmi")),
    details=(
        run_question("ixsmi", "topo", "-m"),
        list_question("/usr/local/corex*/lib64/libcuda.so.1"),
    ),
    idle_memory_mib=1024,  # an idle chip uses 64 MiB with 4.3.0; the contexts of monitors add to that
    toolkit_folder="/usr/local/corex",
    toolkit_trees=(list_question("/usr/local/corex*"),),
    toolkit_path=r"/(corex[^/:]*)",
    toolkit_component="corex",
    driver_component="corex-driver",
    driver_pair=("paddle-iluvatar-gpu", "corex-driver"),
    plugin_partner="corex-driver",
    ecc_optional=True,
    monitors=("ix-exporter",),
    not_applicable=(
        "devices.control_nodes",  # programs open only the device nodes
        "devices.health",  # ixsmi does not report health
        "engine.driver_mounts",  # images contain CoreX with the driver libraries
        "toolkit.driver",  # toolkit.corex compares the two
        "python.device_build",  # paddle needs a plugin for it, not a build: python.plugin
    ),
    architectures=("x86_64",),  # plugin wheels and driver installer exist only for x86_64
    commands={
        "list": ("ixsmi",),
        "uuids": ("ixsmi -L",),
        "health": ("ixsmi -q -i {id}",),
        "ecc": ("ixsmi -q -i {id}",),
        "topology": ("ixsmi topo -m",),
        "pci": ("lspci -nn -d 1e3e:", "dmesg | grep -i iluvatar"),
        "driver": ("lsmod | grep iluvatar", "modinfo iluvatar", "ls -d /usr/local/corex*"),
        "toolkit": ("export LD_LIBRARY_PATH=/usr/local/corex/lib64:$LD_LIBRARY_PATH PATH=/usr/local/corex/bin:$PATH",),
    },
)
