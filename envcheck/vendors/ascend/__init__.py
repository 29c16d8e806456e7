"""Huawei Ascend NPUs: npu-smi, hccn_tool, CANN."""

from __future__ import annotations

from envcheck.core.messages import _
from envcheck.core.model import Device, Status
from envcheck.core.vendor import PER_DEVICE, PER_DIE, Vendor, list_question, read_question, run_question


def _is_unhealthy(device: Device) -> bool:
    return (device.health or "").upper() != "OK"


def _is_load_unknown(device: Device) -> bool:
    return device.utilization_percent is None


VENDOR = Vendor(
    name="npu",
    package=__name__,
    title=_("Huawei Ascend"),
    aliases=("ascend", "huawei"),
    tool="npu-smi",
    parser="probes.ascend.npu_smi",
    pci_vendor="19e5",
    node_pattern="/dev/davinci[0-9]*",
    visible_env="ASCEND_RT_VISIBLE_DEVICES",
    variable_prefixes=("ASCEND", "HCCL", "NPU", "ATB"),
    network_variables=("HCCL_SOCKET_IFNAME", "HCCL_IF_IP", "GLOO_SOCKET_IFNAME"),  # CANN's environment reference
    device_type="npu",
    launch_option="--npus",
    torch_device="npu",
    torch_plugin="torch-npu",
    torch_backend="hccl",
    plugin="paddle-custom-npu",
    plugin_index="https://www.paddlepaddle.org.cn/packages/stable/npu/",
    toolkit="CANN",
    runtime="ascend",
    runtime_env="ASCEND_VISIBLE_DEVICES",  # physical ids; the runtime adds the three management nodes itself
    nodes_suffice=True,  # Ascend Docker documentation: device nodes and driver folders as options
    port_env="HCCL_IF_BASE_PORT",  # CANN's environment variable reference, 8.0 to 9.0
    port_list_env="HCCL_HOST_SOCKET_PORT_RANGE",  # overrides HCCL_IF_BASE_PORT, the same reference
    port_base=60000,
    port_spans=(("8.2.rc1", 32), ("0", 16)),
    control_nodes=("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),  # Ascend's container guides
    monitors=("npu-exporter", "slogd", "dmp_daemon"),
    kernel_modules=("drv_*", "asdrv_*", "davinci*", "ascend*"),  # lsmod in the driver's installation guide: drv_
    libraries=(
        ("libascend_hal.so", "/usr/local/Ascend/driver/lib64/driver/libascend_hal.so"),
        ("libdcmi.so", "/usr/local/dcmi/libdcmi.so"),
        ("libascendcl.so", ""),
        ("libhccl.so", ""),
        ("libatb.so", ""),
    ),
    driver_libraries=("libascend_hal.so",),
    driver_files=(
        *("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/etc/ascend_install.info", "/etc/hccn.conf"),
        "/usr/local/Ascend/driver/version.info",
    ),
    driver_mounts=("/usr/local/Ascend/driver", "/usr/local/dcmi"),  # or folders in these: Ascend's container guides
    watched_paths=(
        *("/usr/bin/npu-smi", "/usr/local/dcmi", "/usr/local/dcmi/libdcmi.so"),
        *("/usr/local/Ascend", "/usr/local/Ascend/driver", "/usr/local/Ascend/driver/lib64"),
    ),
    driver_version_file="/usr/local/Ascend/driver/version.info",
    firmware_file="/usr/local/Ascend/firmware/version.info",
    module_link="HCCS",  # CANN's environment reference, HCCL_INTRA_PCIE_ENABLE: use the same cards of both modules
    package_link="SIO",  # of Atlas A3: the legend of npu-smi info -t topo
    mixes=False,  # FlagCX's feature table: HCCL is homogeneous only
    devices=(run_question("npu-smi", "info"),),
    details=(
        run_question("npu-smi", "info", "-m"),
        run_question("npu-smi", "info", "-t", "topo"),
        read_question("/usr/local/Ascend/driver/version.info"),
        read_question("/usr/local/Ascend/firmware/version.info"),
        read_question("/etc/ascend_install.info"),
        read_question("/etc/hccn.conf"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/x86_64-linux/ascend_toolkit_install.info"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info"),
        list_question("/usr/local/Ascend/ascend-toolkit/set_env.sh"),
        list_question("/usr/local/Ascend/nnal/atb/set_env.sh"),
        read_question("/usr/local/Ascend/nnal/atb/latest/version.info"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/opp/version.info"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/opp_kernel/version.info"),
        read_question("/usr/local/Ascend/ascend-toolkit/latest/compiler/version.info"),
        list_question(
            "/usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe/kernel/ascend*/a[a-d]*"
        ),
    ),
    per_device={
        **{
            kind: run_question("npu-smi", "info", "-t", kind, "-i", PER_DEVICE)
            for kind in ("board", "usages", "health", "ecc")
        },
        **{
            kind: run_question("hccn_tool", "-i", PER_DIE, f"-{kind}", "-g")
            for kind in ("link", "ip", "net_health", "tls")
        },
    },
    only_if={"health": _is_unhealthy, "usages": _is_load_unknown},
    load_keys=("aicore usage", "npu utilization"),
    ecc_words=("Double Bit", "Err"),
    error_code_key="Error Code",
    health_words={  # OK, Warning, Alarm, Critical, UNKNOWN (hicann/driver, npu-smi reference)
        "OK": Status.OK,
        "WARNING": Status.WARN,
        "ALARM": Status.FAIL,
        "CRITICAL": Status.FAIL,
    },
    busy_errors=("-8005", "-8020"),
    pci_classes=("12",),  # Huawei's [0300] is the BMC console (Hi171x) of Kunpeng servers
    toolkit_variables=("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
    path_variables=("ASCEND_OPP_PATH", "ATB_HOME_PATH"),
    toolkit_folder="/usr/local/Ascend",
    toolkit_trees=(
        list_question("/usr/local/Ascend/ascend-toolkit/[0-9]*"),
        list_question("/usr/local/Ascend/cann-[0-9]*"),
    ),
    toolkit_link="/usr/local/Ascend/ascend-toolkit/latest",
    toolkit_path=r"/ascend-toolkit/(\d[^/:]*|latest)|/cann-(\d[^/:]*)",
    toolkit_component="cann",
    toolkit_pair=("torch-npu", "cann"),
    driver_component="npu-driver",
    firmware_component="npu-firmware",
    chip_component="chip",
    driver_pair=("cann", "npu-driver"),
    plugin_partner="cann",
    not_applicable=(
        "devices.order",  # NPU ids are slot numbers: devices.numbering compares them
        *("host.iommu", "host.acs"),  # from NCCL's troubleshooting page on PCIe peers
        "python.device_build",  # paddle needs a plugin for it, not a build: python.plugin
    ),
    idle_memory_mib=4096,  # 3412 MiB on an idle A3 die (driver 24.1.rc3.7), about 3.3 GB on 910B since 24.1
    commands={
        "list": ("npu-smi info",),
        "health": ("npu-smi info -t health -i {id}",),
        "ecc": ("npu-smi info -t ecc -i {id}",),
        "topology": ("npu-smi info -t topo",),
        "pci": ("lspci -nn -d 19e5:", "dmesg | grep -i -E 'davinci|drv_pcie'"),
        # MindCluster installation guide, Ascend Docker Runtime
        "runtime": (
            "sudo ./Ascend-docker-runtime_VERSION_linux-$(uname -m).run --install",
            "sudo systemctl restart docker",
        ),
        "driver": (
            "lsmod | grep drv_",
            "ls -l /dev/davinci_manager",
            "/usr/local/Ascend/driver/tools/upgrade-tool --device_index -1 --system_version",
        ),
        "toolkit": ("source /usr/local/Ascend/ascend-toolkit/set_env.sh",),
    },
)
