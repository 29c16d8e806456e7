"""The record of a vendor: all differences between vendors, as data.  Each record is in the vendor's folder.

An `if vendor == ...` elsewhere means that a field is missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.model import Device, Question, Status

PER_DEVICE = "{id}"  # placeholder of a follow-up question for the id of one device
PER_DIE = "{phy}"  # the same for the physical id of one die, which hccn_tool uses; npu-smi -i uses NPU ids
ADVISED_SHM_GIB = 64  # shared memory of hosts and containers with devices, where no document has a size


def run_question(*argv: str, timeout_s: float = 20.0) -> Question:
    """Return a question that runs a command."""
    return Question("run", argv, timeout_s)


def read_question(path: str) -> Question:
    """Return a question that reads a file."""
    return Question("read", (path,), 5.0)


def list_question(pattern: str) -> Question:
    """Return a question that lists the paths matching a glob."""
    return Question("list", (pattern,), 5.0)


def find_die_id(device: Device) -> int | None:
    """Return the id that hccn_tool -i and /dev/davinciN use: the physical id if the tool shows it, else the NPU id."""
    return device.npu if device.phy_id is None else device.phy_id


@dataclass(frozen=True)
class Vendor:
    """One vendor's names and numbers; `package` is the dotted name of its folder with its checks, parsers and rules.

    The fields without a default are the minimum: with them devices are found and listed.  A check that needs a missing
    field reports UNKNOWN and names the field (docs/how-to/add-a-vendor.md).

    `tool` lists the devices; `parser` is the module whose parse(text) reads its output, `file_parsers` are modules for
    other formats, by question key.  `aliases` are further values of --device; one that several vendors claim is
    ambiguous.  `not_applicable` are generic checks that make no sense for these devices.

    `more_pci_vendors` are further PCI vendor ids of the same maker's cards.  `interface_version` matches versions that
    the tool prints as the driver's although they are those of an interface that it imitates, never the driver's.
    `driver_line` matches the driver versions that compare with the documented ones; how others relate to them is not
    published.  `driver_downloads` are the processor architectures for which `--install-driver fetch` finds a file.
    `legacy_devices` matches names of devices on which the recipes' builds do not run.

    `idle_memory_mib` is the memory that the driver itself uses on an idle device; `plugin_index` is the only package
    index with the plugin; `paddle_build` is the paddle package with kernels for these devices, where paddle needs no
    plugin, and `paddle_index` the index with it; `commands` are shell commands by purpose; `pci_classes` are the
    prefixes of the PCI classes of accelerators (pci.ids). `devices` are the questions that list devices, most reliable
    first (the first one with an answer is used); `samples` query only memory, load, power and health, at intervals
    during a run, if that is cheaper; `details` are asked in addition. `per_device` are follow-up questions by kind
    (board, usages, health, ecc, link ...), asked once per id in place of `{id}`; `only_if` restricts a kind to some
    devices, because the list already shows it for the others. `load_keys` are prefixes of the keys of kind usages that
    state the load; `ecc_words` are contained in the keys of kind ecc that count uncorrectable errors; `error_code_key`
    is the key of kind health. `health_words` are the tool's words for a device's health; `ecc_optional`: devices
    without counters are normal; `health_optional`: some releases of the tool do not report health.

    `device_type` is paddle's name for the device, `launch_option` the launcher's; `torch_device` is torch's name,
    `torch_plugin` the package that provides it, `torch_backend` its collective backend; `chips_per_card` is how many
    devices the tool lists per physical card. Containers get devices by names of `cdi_kind`, by the engine's `runtime`,
    which reads `runtime_env`, by docker's --gpus (`owns_gpus_option`), or, with `nodes_suffice`, by the device nodes
    only. Collectives open ports on the host: those in `port_list_env`, else starting at `port_base` or the value of
    `port_env`, as many as `port_spans` has for the toolkit's version (newest first). `mixes`: the devices can be in one
    job with other vendors' devices. Devices that `module_link` connects form a module; across two modules, collectives
    need pairs of devices. `package_link` connects the dies of one package. A job on up to `group_size` devices needs a
    `group_link` between each two of them.
    `order_variable` is the variable and value that make programs number devices like the tool. `variable_prefixes`
    begin the names of the environment variables that the vendor's libraries read; `rdma_variable` selects the RDMA
    ports, and `peer_setting` lets collectives avoid transfers between devices over PCIe (empty: none is documented).
    `network_variables` name interfaces of the host: a job in a container with the host's network gets the user's.
    `busy_errors` are the error codes when two programs use one device.

    A program opens `control_nodes` besides the device nodes; the first program creates the `lazy_nodes`. `monitors`
    keep nodes open but use hardly any memory (process names, 15 characters). The driver is `kernel_modules` (patterns;
    any of them shows it) and `libraries`: (name, documented path), tried by name first; `driver_libraries` of them come
    with the driver, the others with the toolkit.  `driver_files` are driver files that documents mount into containers
    one by one; a container that gets its devices from mounts gets `driver_mounts` from the host; `watched_paths` are
    collected too.  `driver_version_file` and `firmware_file` contain versions.  The toolkit is in the folders of
    `toolkit_trees`; `toolkit_link` is the link to the active one, and `toolkit_path` matches its name in
    LD_LIBRARY_PATH; `toolkit_variables` are set by its environment script, `path_variables` name further folders.
    `uses_dkms`: the driver package registers its module with DKMS.  `node_rule` is the udev rule file of the driver
    package that lets all users open the device nodes.  `images_have_libraries`: the images contain all libraries, also
    those of the driver.  `shm_gib` is the shared memory that published set-ups give to containers.

    In the version tables, `driver_component`, `firmware_component`, `toolkit_component` and `chip_component` are the
    vendor's driver, firmware, toolkit and device type; the oldest versions of the rows `driver_pair` and `toolkit_pair`
    are the minimum versions; `plugin_partner` is the package that the plugin is built for.
    """

    name: str
    package: str
    title: str
    tool: str
    parser: str
    pci_vendor: str
    node_pattern: str
    devices: tuple[Question, ...]
    aliases: tuple[str, ...] = ()
    more_pci_vendors: tuple[str, ...] = ()
    interface_version: str = ""
    driver_line: str = ""
    legacy_devices: str = ""
    not_applicable: tuple[str, ...] = ()
    file_parsers: Mapping[str, str] = field(default_factory=dict)
    samples: tuple[Question, ...] = ()
    details: tuple[Question, ...] = ()
    per_device: Mapping[str, Question] = field(default_factory=dict)
    only_if: Mapping[str, Callable[[Device], bool]] = field(default_factory=dict)
    load_keys: tuple[str, ...] = ()
    ecc_words: tuple[str, ...] = ()
    error_code_key: str = ""
    health_words: Mapping[str, Status] = field(default_factory=dict)
    ecc_optional: bool = False
    health_optional: bool = False
    busy_errors: tuple[str, ...] = ()
    visible_env: str = ""
    order_variable: tuple[str, str] = ("", "")
    device_type: str = ""
    launch_option: str = ""
    torch_device: str = ""
    torch_plugin: str = ""
    torch_backend: str = ""
    chips_per_card: int = 1
    plugin: str | None = None
    plugin_index: str = ""
    plugin_partner: str = ""
    paddle_build: str = ""
    driver_downloads: tuple[str, ...] = ()
    paddle_index: str = ""
    toolkit: str | None = None
    toolkit_variables: tuple[str, ...] = ()
    path_variables: tuple[str, ...] = ()
    toolkit_folder: str = ""
    toolkit_trees: tuple[Question, ...] = ()
    toolkit_link: str = ""
    toolkit_path: str = ""
    toolkit_component: str = ""
    toolkit_pair: tuple[str, str] | None = None
    driver_component: str = ""
    firmware_component: str = ""
    chip_component: str = ""
    driver_pair: tuple[str, str] | None = None
    driver_version_file: str = ""
    firmware_file: str = ""
    runtime: str | None = None
    runtime_env: str = ""
    cdi_kind: str = ""
    owns_gpus_option: bool = False
    nodes_suffice: bool = False
    images_have_libraries: bool = False
    shm_gib: int = ADVISED_SHM_GIB
    pci_classes: tuple[str, ...] = ("12", "03", "0b4")
    idle_memory_mib: int = 0
    architectures: tuple[str, ...] = ("x86_64", "aarch64")
    port_env: str = ""
    port_list_env: str = ""
    port_base: int = 0
    port_spans: tuple[tuple[str, int], ...] = ()
    mixes: bool = True
    module_link: str = ""
    package_link: str = ""
    group_link: str = ""
    group_size: int = 0
    variable_prefixes: tuple[str, ...] = ()
    rdma_variable: str = "NCCL_IB_HCA"
    network_variables: tuple[str, ...] = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    peer_setting: str = "NCCL_P2P_DISABLE=1"
    control_nodes: tuple[str, ...] = ()
    lazy_nodes: tuple[str, ...] = ()
    monitors: tuple[str, ...] = ()
    node_rule: str = ""
    kernel_modules: tuple[str, ...] = ()
    uses_dkms: bool = True
    libraries: tuple[tuple[str, str], ...] = ()
    driver_libraries: tuple[str, ...] = ()
    driver_files: tuple[str, ...] = ()
    driver_mounts: tuple[str, ...] = ()
    watched_paths: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def pci_vendors(self) -> tuple[str, ...]:
        """The PCI vendor ids of the cards; none for a vendor without cards."""
        return (self.pci_vendor, *self.more_pci_vendors) if self.pci_vendor else ()

    @cached_property
    def pci_questions(self) -> tuple[Question, ...]:
        """The questions that list the cards on the PCI bus: lspci selects one vendor id at a time."""
        return tuple(run_question("lspci", "-nn", "-d", f"{number}:") for number in self.pci_vendors)

    @cached_property
    def node_question(self) -> Question:
        """The question that lists the device nodes."""
        return list_question(self.node_pattern)

    @cached_property
    def presence_questions(self) -> tuple[Question, ...]:
        """The cheap questions that show whether such a device is present, even without the tool."""
        return (*self.pci_questions, self.node_question)

    @cached_property
    def detail_questions(self) -> tuple[Question, ...]:
        """The questions that are asked in addition to the tool's list of devices."""
        return (*self.details, *self.toolkit_trees)
