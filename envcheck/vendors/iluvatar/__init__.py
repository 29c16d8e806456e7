"""Iluvatar GPUs: ixsmi, CoreX."""

from __future__ import annotations

from envcheck.core.model import Question
from envcheck.core.vendor import Vendor, list_paths, run

_IX_FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,temperature.gpu,utilization.gpu,"
    "memory.used,memory.total,{power},clocks.sm,clocks.mem"
)


def _ix_query(power: str) -> Question:
    """CoreX 4 calls the field gpu.power.draw, CoreX 3 power.draw; each refuses the other (public inventory scripts)."""
    return run("ixsmi", f"--query-gpu={_IX_FIELDS.format(power=power)}", "--format=csv")


VENDOR = Vendor(
    name="iluvatar",
    package=__name__,
    title="Iluvatar CoreX",
    aliases=("iluvatar-corex", "iluvatar_corex", "corex", "iluvatar_gpu", "gpu"),
    tool="ixsmi",
    parser="probes.smi.ixsmi",
    pci_vendor="1e3e",
    node_pattern="/dev/iluvatar[0-9]*",
    visible_env="CUDA_VISIBLE_DEVICES",
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
    # The same toolkit's page on doing it by hand, and FlagOS's Iluvatar images; the image brings CoreX.  A control node
    # there is none: the vendor's device plugin gives a pod /dev/iluvatarN alone.
    nodes_suffice=True,
    chips_per_card=2,  # a BI-V150 card carries two chips of 32 GiB: seed 001 calls the pair one 64 GiB card
    devices=(_ix_query("gpu.power.draw"), _ix_query("power.draw"), run("ixsmi")),
    details=(
        run("ixsmi", "topo", "-m"),
        list_paths("/usr/local/corex*/lib64/libcuda.so.1"),
    ),
    idle_memory_mib=1024,  # 64 MiB of an idle chip seen with 4.3.0; contexts of a monitor come on top
    toolkit_folder="/usr/local/corex",
    toolkit_trees=(list_paths("/usr/local/corex*"),),
    toolkit_path=r"/(corex[^/:]*)",
    toolkit_component="corex",
    driver_component="corex-driver",
    driver_pair=("paddle-iluvatar-gpu", "corex-driver"),
    plugin_partner="corex-driver",
    ecc_optional=True,
    monitors=("ix-exporter",),
    not_applicable=(
        "devices.control_nodes",  # programs open the cards' own nodes alone
        "devices.health",  # ixsmi has no word for it
        "engine.driver_mounts",  # images bring CoreX, and with it the driver's libraries
        "toolkit.driver",  # toolkit.corex compares the two
    ),
    architectures=("x86_64",),  # the plugin's wheels and the driver's run file: x86_64 alone
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
