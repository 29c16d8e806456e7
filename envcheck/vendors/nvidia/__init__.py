"""NVIDIA GPUs: nvidia-smi, CUDA."""

from __future__ import annotations

from envcheck.core.vendor import Vendor, list_paths, read, run

VENDOR = Vendor(
    name="nvidia",
    package=__name__,
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
    devices=(run("nvidia-smi", "-q", "-x"), run("nvidia-smi")),
    samples=(  # a tenth of what -q -x costs
        run(
            "nvidia-smi",
            "--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,"
            "ecc.errors.uncorrected.volatile.total",
            "--format=csv",
        ),
    ),
    details=(
        run("nvidia-smi", "topo", "-m"),
        run("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"),
        run("nv-fabricmanager", "--version"),
        run("systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState"),
        read("/proc/driver/nvidia/version"),
        list_paths("/dev/char/195:*"),
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
)
