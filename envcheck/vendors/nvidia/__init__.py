"""NVIDIA GPUs: nvidia-smi, CUDA."""

from __future__ import annotations

from envcheck.core.vendor import Vendor, list_paths, read, run

VENDOR = Vendor(
    name="nvidia",
    package=__name__,
    title="NVIDIA",
    aliases=("cuda", "gpu"),
    tool="nvidia-smi",
    parser="probes.smi.nvidia_smi",
    file_parsers={"read /proc/driver/nvidia/version": "probes.smi.nvidia_kernel"},
    pci_vendor="10de",
    node_pattern="/dev/nvidia[0-9]*",
    visible_env="CUDA_VISIBLE_DEVICES",
    device_type="gpu",
    launch_option="--gpus",
    torch_device="cuda",
    torch_backend="nccl",
    toolkit="CUDA",
    runtime="nvidia",
    runtime_env="NVIDIA_VISIBLE_DEVICES",
    cdi_kind="nvidia.com/gpu",
    owns_gpus_option=True,
    order_variable=("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),  # libnvidia-container's list; nvidia-modprobe makes them
    lazy_nodes=("/dev/nvidia-uvm",),
    monitors=("nvidia-persiste", "nv-hostengine", "dcgm-exporter"),
    kernel_modules=("nvidia", "nvidia_uvm"),
    libraries=(("libcuda.so.1", ""), ("libnvidia-ml.so.1", "")),
    driver_libraries=("libcuda.so.1", "libnvidia-ml.so.1"),
    driver_version_file="/proc/driver/nvidia/version",
    watched_paths=("/usr/bin/nvidia-smi",),
    driver_component="nvidia-driver",
    driver_pair=("paddlepaddle-gpu", "nvidia-driver"),
    ecc_optional=True,
    not_applicable=(
        "devices.health",  # nvidia-smi has no word for it
        *("driver.mounts", "engine.driver_mounts"),  # its runtime and CDI mount the driver file by file
        # Wheels and images bring CUDA; there is no tree on the host that programs are pointed to.
        *("toolkit.present", "toolkit.single", "toolkit.version", "toolkit.driver", "toolkit.environment"),
        *("toolkit.copies", "toolkit.paths"),
        "python.plugin",  # paddle has no plugin for it, but a build: python.device_build
    ),
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
    commands={
        "list": ("nvidia-smi",),
        "uuids": ("nvidia-smi -L",),
        "health": ("nvidia-smi -q -i {id}",),
        "ecc": ("nvidia-smi -q -d ECC,ROW_REMAPPER -i {id}",),
        "topology": ("nvidia-smi topo -m", "nvidia-smi nvlink --status"),
        "pci": ("lspci -nn -d 10de:", "dmesg | grep -i -E 'nvrm|xid'"),
        "whole": ("nvidia-smi -i {id} -mig 0",),
        "driver": ("cat /proc/driver/nvidia/version", "lsmod | grep nvidia", "dkms status"),
    },
)
