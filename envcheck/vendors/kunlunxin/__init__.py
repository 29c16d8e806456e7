"""Kunlunxin XPUs: xpu-smi, XRE.

Sources: ERNIE's docs/devices/README_XPU.md; the XRE guide and its list of errors; Paddle's installation pages for XPUs;
FlagOS's pages of Kunlunxin images; a published survey of a P800 machine.
"""

from __future__ import annotations

from envcheck.core.messages import _
from envcheck.core.model import Status
from envcheck.core.vendor import Vendor, list_question, read_question, run_question

VERSION_FILE = "/proc/kunlun/version"

VENDOR = Vendor(
    name="xpu",
    package=__name__,
    title=_("Kunlunxin"),
    driver_downloads=("x86_64",),
    aliases=("kunlunxin", "kunlun", "p800"),
    tool="xpu-smi",
    parser="probes.kunlunxin.xpu_smi",
    file_parsers={f"read {VERSION_FILE}": "probes.kunlunxin.version_file"},
    pci_vendor="1d22",  # Baidu: P800 OAM, and all older cards
    more_pci_vendors=("2057",),  # P800 PCIe (zstack-utility; Paddle's page for P800)
    # K100 and K200 are processing accelerators, R200 and R300 have class 0780 (the XRE guide's lspci)
    pci_classes=("12", "0780"),
    node_pattern="/dev/xpu[0-9]*",
    visible_env="XPU_VISIBLE_DEVICES",
    order_variable=("CUDA_DEVICE_ORDER", "OAM_ID"),
    variable_prefixes=("XPU", "XPUAPI", "BKCL", "CXPU", "XMLIR", "XBLAS", "XTORCHRUN", "CUDA"),
    rdma_variable="BKCL_RDMA_NICS",
    network_variables=("BKCL_RDMA_NICS", "BKCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"),  # ERNIE's page sets the first two
    peer_setting="",  # the meaning of BKCL's variables for this is not published
    device_type="xpu",
    launch_option="--xpus",
    torch_device="cuda",  # the vendor's torch builds show the cards as CUDA devices
    paddle_build="paddlepaddle-xpu",
    paddle_index="https://www.paddlepaddle.org.cn/packages/stable/xpu-p800/",
    toolkit="XRE",
    runtime="xpu",
    runtime_env="CXPU_VISIBLE_DEVICES",  # xpu-container-toolkit
    nodes_suffice=True,  # ERNIE's page and FlagOS's: --device for each node; the images contain XRE
    images_have_libraries=True,
    shm_gib=128,  # Paddle's page for P800; ERNIE's page has 256 GB
    control_nodes=("/dev/xpuctrl",),
    node_rule="99-kunlun.rules",  # XRE guide, list of errors: without it, only root can open the nodes
    kernel_modules=("kunlun", "xpu_driver"),  # xpu_driver before driver 4.0
    uses_dkms=False,  # XRE guide: the package has modules of its own, and is installed again for another kernel
    libraries=(
        ("libxpuml.so.1", "/usr/local/xpu/lib/libxpuml.so.1"),
        ("libxpurt.so.2", "/usr/local/xpu/lib/libxpurt.so.2"),
    ),
    driver_libraries=("libxpuml.so.1",),
    driver_files=("/usr/local/bin/xpu-smi", "/usr/local/bin/xpu_smi"),
    driver_version_file=VERSION_FILE,
    # NVIDIA's numbers (515.58, 575.51.03) are those of the interface that XRE imitates: Paddle#75925 shows both of one
    # machine; XRE's own first number is 3, 4 or 5
    interface_version=r"\d{3}(\.\d+)+",
    watched_paths=("/usr/local/bin/xpu-smi", "/usr/local/bin/xpu_smi", "/usr/local/xpu/bin/xpu_smi"),
    devices=(run_question("xpu-smi", "-q", "-x"), run_question("xpu-smi"), run_question("xpu_smi")),
    samples=(run_question("xpu-smi"),),
    details=(
        run_question("xpu-smi", "topo", "-m"),
        read_question(VERSION_FILE),
        read_question("/proc/xpu/probe_error"),
    ),
    group_link="XL",  # FastDeploy#2794: four cards must be 0-3 or 4-7, which XPULink connects fully
    group_size=4,
    driver_line=r"[0-4]\.\d[\w.]*|5\.0\.[\w.]+",  # how 5.19, 5.29 and 5.37 relate to 5.0.21 is not published
    legacy_devices=r"K[12]00|R[234]\d\d|RG800",  # Paddle#73315, Paddle#77475: the wheel for P800 finds none of them
    toolkit_folder="/usr/local/xpu",
    toolkit_trees=(list_question("/usr/local/xpu*"),),
    toolkit_path=r"/(xpu-\d[^/:]*)",
    toolkit_component="xre",
    driver_component="xpu-driver",
    driver_pair=("paddlepaddle-xpu", "xpu-driver"),
    health_words={"N": Status.OK, "NORMAL": Status.OK, "RUNNING": Status.OK, "E": Status.FAIL, "ERROR": Status.FAIL},
    idle_memory_mib=1024,  # 0 MiB on an idle card (ERNIE's page); the contexts of monitors add to that
    health_optional=True,  # the tables of drivers 4.x have a column State, the table of 5.x has none
    ecc_optional=True,
    not_applicable=(
        *("driver.mounts", "engine.driver_mounts"),  # the images contain XRE
        "python.plugin",  # paddle has a build for it, not a plugin: python.device_build
        # Paddle's wheels and the images contain XRE, as driver packages do; toolkit.xre judges the one that is in use.
        *("toolkit.present", "toolkit.single", "toolkit.version", "toolkit.driver", "toolkit.environment"),
        *("toolkit.copies", "toolkit.paths"),
    ),
    # P800's wheels, images and FastDeploy exist for x86_64 only; the wheels of older cards also for aarch64
    architectures=("x86_64",),
    commands={
        "list": ("xpu-smi",),
        "uuids": ("xpu-smi -L",),
        "health": ("xpu-smi -q -i {id}",),
        "ecc": ("xpu-smi -q -d ECC -i {id}",),
        "reset": ("sudo xpu-smi -r -i {id}",),
        "topology": ("xpu-smi topo -m", "xpu-smi xpulink -s"),
        "pci": ("lspci -nn -d 1d22:", "lspci -nn -d 2057:", "dmesg | grep -i kunlun"),
        "driver": (f"cat {VERSION_FILE}", "lsmod | grep kunlun", "modinfo -F vermagic kunlun"),
        "toolkit": ("export LD_LIBRARY_PATH=/usr/local/xpu/lib:$LD_LIBRARY_PATH PATH=/usr/local/xpu/bin:$PATH",),
    },
)
