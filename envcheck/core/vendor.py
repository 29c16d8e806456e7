"""The record of a vendor: all that differs between vendors, as data.  Each stands in its folder.

An `if vendor == ...` elsewhere means that a field is missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.model import Device, Question

PER_DEVICE = "{id}"  # stands in a follow-up question for the id of one device
PER_DIE = "{phy}"  # as above, for the physical id of one die: what hccn_tool counts, where npu-smi -i counts NPUs


def run(*argv: str, timeout_s: float = 20.0) -> Question:
    return Question("run", argv, timeout_s)


def read(path: str) -> Question:
    return Question("read", (path,), 5.0)


def list_paths(pattern: str) -> Question:
    return Question("list", (pattern,), 5.0)


@dataclass(frozen=True)
class Vendor:
    """One vendor's names and figures; `package` is the dotted name of its folder, where its other parts stand.

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
    package: str
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
        return (run("lspci", "-nn", "-d", f"{self.pci_vendor}:"), list_paths(self.node_pattern))
