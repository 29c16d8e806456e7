"""The record of a vendor: all that differs between vendors, as data.  Each stands in its folder.

An `if vendor == ...` elsewhere means that a field is missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.model import Device, Question, Status

PER_DEVICE = "{id}"  # stands in a follow-up question for the id of one device
PER_DIE = "{phy}"  # as above, for the physical id of one die: what hccn_tool counts, where npu-smi -i counts NPUs


def run(*argv: str, timeout_s: float = 20.0) -> Question:
    return Question("run", argv, timeout_s)


def read(path: str) -> Question:
    return Question("read", (path,), 5.0)


def list_paths(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)


def die_id(device: Device) -> int | None:
    """What hccn_tool -i and /dev/davinciN count: the physical id where the tool shows it, else the NPU id."""
    return device.npu if device.phy_id is None else device.phy_id


@dataclass(frozen=True)
class Vendor:
    """One vendor's names and figures; `package` is the dotted name of its folder, where its other parts stand.

    The fields without a default are the minimum: with them the cards are found and listed, and each check that wants a
    field which is not given answers UNKNOWN and names it (docs/vendors.md).

    `tool` lists the devices, and `parser` is the module whose parse(text) reads what it prints; `file_parsers` names
    the modules for other layouts, by question key.  `aliases` are further words for --device; one that several vendors
    claim is ambiguous.  `not_applicable` are generic checks that make no sense for these cards.

    `idle_memory_mib` is what the driver itself holds of an idle device; `plugin_index` the only package index that has
    the plugin; `commands` are ready to paste, by what they are for; `pci_classes` how the classes of accelerators begin
    (pci.ids).  `devices` are the questions that list devices, steadiest first (the first that answers counts);
    `samples` ask for memory, load, power and health alone, every few seconds of a run, where that is cheaper; `details`
    go with them; `per_device` are asked once for each id, `{id}` replaced, by their kind (board, usages, health, ecc,
    link ...), where `only_if` names the kind of such devices alone: the list has told it of others.  `load_keys` are
    how the keys of the kind usages begin that tell the load, `ecc_words` what the keys of the kind ecc hold that count
    uncorrectable errors, `error_code_key` the key of the kind health.  `health_words` are the tool's words for a
    device's health; `ecc_optional`: cards without counters are nothing to wonder about.

    `device_type` is paddle's name for the device, `launch_option` the launcher's; `torch_device` is torch's name for
    it, `torch_plugin` the package that brings it, `torch_backend` the one of its collectives; `chips_per_card` how many
    devices the tool lists for a card that is bought.  Cards come into a container by names of `cdi_kind`, by the
    engine's `runtime`, which reads `runtime_env`, by docker's --gpus (`owns_gpus_option`), or, where `nodes_suffice`,
    by the nodes alone.  The collectives of several devices open ports on the host: those that `port_list_env` lists,
    else from `port_base` or what `port_env` says on, as many as `port_spans` has for the toolkit's version (newest
    first).  `mixes`: they work in one job with other vendors' cards; cards that `module_link` joins are a module, and
    over two modules the collectives want pairs of cards.  `order_variable`: the variable, and its value, that makes
    programs count as the tool does.  `busy_errors` are the error codes when two programs are on one card.

    A program opens `control_nodes` beside the cards' own, of which the first program makes the `lazy_nodes`;
    `monitors` keep nodes open and use no memory to speak of (names of processes, 15 characters).  The driver is
    `kernel_modules` (patterns), any of which shows it, and `libraries`: (name, documented place), tried by name first,
    of which the driver brings `driver_libraries` and the toolkit the rest.  `driver_files` are files of the driver that
    documents mount into containers, one by one; a container that gets its cards by hand gets `driver_mounts` from the
    host; `watched_paths` are looked at, too.  `driver_version_file` and `firmware_file` hold versions.  The toolkit
    lies in what `toolkit_trees` lists, `toolkit_link` leads to the one in force, and `toolkit_path` finds its name in
    LD_LIBRARY_PATH; `toolkit_variables` are set by its environment, `path_variables` name further folders.

    In the tables of versions `driver_component`, `firmware_component`, `toolkit_component` and `chip_component` are
    its driver, firmware, toolkit and kind of card, `driver_pair` and `toolkit_pair` the rows whose oldest version is
    the floor of each, `plugin_partner` is what the plugin is built for.
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
    pci_classes: tuple[str, ...] = ("12", "03", "0b4")
    idle_memory_mib: int = 0
    architectures: tuple[str, ...] = ("x86_64", "aarch64")
    port_env: str = ""
    port_list_env: str = ""
    port_base: int = 0
    port_spans: tuple[tuple[str, int], ...] = ()
    mixes: bool = True
    module_link: str = ""
    control_nodes: tuple[str, ...] = ()
    lazy_nodes: tuple[str, ...] = ()
    monitors: tuple[str, ...] = ()
    kernel_modules: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    driver_libraries: tuple[str, ...] = ()
    driver_files: tuple[str, ...] = ()
    driver_mounts: tuple[str, ...] = ()
    watched_paths: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def presence(self) -> tuple[Question, ...]:
        """The cheap questions that tell whether such a card is in the machine, tool or no tool."""
        return (run("lspci", "-nn", "-d", f"{self.pci_vendor}:"), list_paths(self.node_pattern))

    @cached_property
    def beside(self) -> tuple[Question, ...]:
        """What is asked beside the tool's list of devices."""
        return (*self.details, *self.toolkit_trees)
