"""NVIDIA GPUs: nvidia-smi, CUDA."""

from __future__ import annotations

from envcheck.core.vendor import Vendor, list_question, read_question, run_question

VENDOR = Vendor(
    name="nvidia",
    package=__name__,
    title="NVIDIA",
    driver_downloads=("x86_64",),
    aliases=("cuda", "gpu"),
    tool="nvidia-smi",
    parser="probes.smi.nvidia_smi",
    file_parsers={"read /proc/driver/nvidia/version": "probes.smi.nvidia_kernel"},
    pci_vendor="10de",
    node_pattern="/dev/nvidia[0-9]*",
    visible_env="CUDA_VISIBLE_DEVICES",
    variable_prefixes=("CUDA", "NCCL"),
    device_type="gpu",
    launch_option="--gpus",
    torch_device="cuda",
    torch_backend="nccl",
    paddle_build="paddlepaddle-gpu",
    paddle_index="https://www.paddlepaddle.org.cn/packages/stable/cu126/",
    toolkit="CUDA",
    runtime="nvidia",
    runtime_env="NVIDIA_VISIBLE_DEVICES",
    cdi_kind="nvidia.com/gpu",
    owns_gpus_option=True,
    order_variable=("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    control_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm"),  # libnvidia-container's list; nvidia-modprobe creates them
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
        "devices.health",  # nvidia-smi does not report health
        *("driver.mounts", "engine.driver_mounts"),  # the runtime and CDI mount the driver files one by one
        # Wheels and images contain CUDA; programs use no tree on the host.
        *("toolkit.present", "toolkit.single", "toolkit.version", "toolkit.driver", "toolkit.environment"),
        *("toolkit.copies", "toolkit.paths"),
        "python.plugin",  # paddle has a build for it, not a plugin: python.device_build
    ),
    devices=(run_question("nvidia-smi", "-q", "-x"), run_question("nvidia-smi")),
    samples=(  # takes a tenth of the time of -q -x
        run_question(
            "nvidia-smi",
            "--query-gpu=index,uuid,memory.used,memory.total,utilization.gpu,power.draw,temperature.gpu,"
            "ecc.errors.uncorrected.volatile.total",
            "--format=csv",
        ),
    ),
    details=(
        run_question("nvidia-smi", "topo", "-m"),
        run_question("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"),
        run_question("nv-fabricmanager", "--version"),
        run_question("systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState"),
        read_question("/proc/driver/nvidia/version"),
        list_question("/dev/char/195:*"),
    ),
    pci_classes=("03",),
    idle_memory_mib=1024,  # the driver uses about 600 MiB of an idle H200; the contexts of monitors add to that
    commands={
        "list": ("nvidia-smi",),
        "uuids": ("nvidia-smi -L",),
        "health": ("nvidia-smi -q -i {id}",),
        "ecc": ("nvidia-smi -q -d ECC,ROW_REMAPPER -i {id}",),
        "topology": ("nvidia-smi topo -m", "nvidia-smi nvlink --status"),
        "pci": ("lspci -nn -d 10de:", "dmesg | grep -i -E 'nvrm|xid'"),
        "whole": ("nvidia-smi -i {id} -mig 0",),
        # NVIDIA Container Toolkit's installation guide, "Configuring Docker"
        "runtime": ("sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"),
        "driver": ("cat /proc/driver/nvidia/version", "lsmod | grep nvidia", "dkms status"),
    },
)
