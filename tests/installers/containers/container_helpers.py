"""Helpers for tests of containers: a simulated machine whose files a real engine can mount, and flattened documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.collect import facts
from envcheck.collect.answer_sources import AnswerSource, simulated_machine
from envcheck.core.facts import EngineFacts, Facts
from envcheck.job.card_ids import count_cards, select_card_ids
from envcheck.job.container_privileges import derive_container
from envcheck.simulate.build import write_simulation
from envcheck.simulate.machine_file import load_machine
from installers.containers.host_paths import ContainerPlan, plan_container
from installers.containers.path_kinds import observe_paths
from installers.recipes import catalogue
from installers.recipes.container_spec import ContainerSpec, PublishedPort, Ulimit
from installers.recipes.recipe import Mount, Recipe

SPEC = ContainerSpec(
    name="box",
    image="name@sha256:12",
    recipe="little",
    workdir="/workspace",
    mounts=(Mount("/data", "/data"), Mount("/etc/info", "/etc/info", True)),
    devices=("/dev/card0:/dev/card0:rwm", "/dev/card1:/dev/card1:rwm"),
    capabilities=("SYS_PTRACE", "IPC_LOCK"),
    shm_bytes=64 << 30,
    ports=(PublishedPort("127.0.0.1", 7860, 7860), PublishedPort("", 53, 53, "udp")),
    ulimits=(Ulimit("memlock", -1, -1),),
    environment={"A": "1"},
)
LOCAL_MAJOR = 240  # 240 to 254 are for local use: a node that is there, and no driver behind it
# Of the engine's own making, other with each container.
NOT_ASKED = (
    "Config.Hostname",
    "Config.Domainname",
    "HostConfig.ContainerIDFile",
    "HostConfig.LogConfig.Config",
    "HostConfig.ConsoleSize",
)


RECIPE = """
name = "{name}"
title = "A small recipe in a container"
device = "cpu"
framework = "envcheck"
models = ["{name}"]
source = "a test"
interpreter = "python3"
python = ">=3.9"
workdir = "{workdir}"
verify = [["{{python}}", "-c", "{verify}"]]
[hardware]
product = "any"
source = "a test"
[image.references]
x86_64 = "{image}"
[container]
name = "{container}"
workdir = "{workdir}"
network = "host"
source = "a test"
{options}
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["true"]
"""


def render_recipe(name: str, image: str, container: str, workdir: str, verify: str, options: str = "") -> str:
    """Return the TOML of a small recipe with a container; `verify` is Python code, `options` is more TOML of
    [container]."""
    return RECIPE.format(name=name, image=image, container=container, workdir=workdir, verify=verify, options=options)


@dataclass(frozen=True)
class ContainerScene:
    """A recipe on its machine; `root` is that machine's file system, `work` is the user's real folder.

    `facts` are those of the machine, with other runtimes after `set_runtimes`.
    """

    recipe: Recipe
    root: Path
    work: Path
    machine: AnswerSource
    facts: Facts

    def set_runtimes(self, *runtimes: str) -> ContainerScene:
        return replace(self, facts=replace(self.facts, engine=EngineFacts("26.1.3", runtimes)))

    def draw_plan(self, image: str = "image", as_published: bool = False) -> ContainerPlan:
        device = self.recipe.device
        ids = select_card_ids(self.recipe, self.facts, device, count_cards(self.recipe, device))
        made = derive_container(self.recipe, self.facts, device, ids, "x86_64", str(self.work), as_published)
        assert made
        return plan_container(self.recipe, made, image, observe_paths(made, self.machine))

    def to_real_path(self, path: str) -> str:
        """Return the engine's path of a file of the simulated machine; /dev and the user's folder are real."""
        known = path == "/dev" or Path(path).is_relative_to(self.work)
        return path if known else f"{self.root}{path}"

    def to_shown_path(self, path: str) -> str:
        """Reverse of `to_real_path`; the user's folder is `.`."""
        return path.removeprefix(str(self.root)).replace(str(self.work), ".")

    def move_to_engine(self, spec: ContainerSpec) -> ContainerSpec:
        """Return the specification with its sources where the engine finds them."""
        mounts = tuple(replace(m, source=self.to_real_path(m.source)) for m in spec.mounts)
        return replace(spec, mounts=mounts, devices=tuple(f"{self.root}{device}" for device in spec.devices))


def make_scene(name: str, machine: str, folder: Path) -> ContainerScene:
    """Build the recipe `name` on the simulated `machine` in `folder`; as root, its device nodes are real ones."""
    (folder / "sim").mkdir()
    (folder / "work").mkdir()
    write_simulation(load_machine(machine), folder / "sim", 0.0)
    door, root = simulated_machine(folder / "sim"), folder / "sim" / "root"
    for number, node in enumerate(sorted((root / "dev").glob("*"))):
        if os.geteuid() == 0:
            node.unlink()
            os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(LOCAL_MAJOR, number))
    recipe = catalogue.find_recipe(catalogue.load_all(), name)
    return ContainerScene(recipe, root, folder / "work", door, facts.gather_facts(door, recipe.device))


def flatten_inspection(inspected: Mapping[str, Any], at: ContainerScene) -> dict[str, str]:
    """Return a `docker inspect` document as a flat table, lists keyed by what their items describe."""
    found = {"Name": inspected["Name"], "Image": inspected["Image"]}
    for part in ("Config", "HostConfig"):
        found |= dict(_list_leaves(part, inspected[part]))
    for mount in inspected["Mounts"]:
        words = (at.to_shown_path(mount["Source"]), "rw" if mount["RW"] else "ro", mount["Propagation"] or "rprivate")
        found[f"Mounts {mount['Destination']}"] = " ".join(words)
    for line in inspected["Config"]["Env"] or ():
        found[f"Config.Env {line.partition('=')[0]}"] = line.partition("=")[2]
    for device in inspected["HostConfig"]["Devices"] or ():
        words = (at.to_shown_path(device["PathOnHost"]), device["CgroupPermissions"])
        found[f"HostConfig.Devices {device['PathInContainer']}"] = " ".join(words)
    for way in ("Binds", "Mounts"):  # two spellings of what stands in Mounts above: only which one was used
        found[f"HostConfig.{way}"] = "used" if inspected["HostConfig"].get(way) else "not used"
    listed = ("Config.Env", "HostConfig.Devices", *NOT_ASKED)
    return {name: str(value) for name, value in found.items() if name not in listed}


def _list_leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """Yield leaf values; null, empty lists and empty tables are equal, as engines and clients differ in them."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in _list_leaves(f"{name}.{key}", inner)]
    return [] if value in (None, [], {}, "") else [(name, value)]


def read_document_options(options: list[Mapping[str, Any]], at: ContainerScene) -> list[str]:
    """Return the options in a document, with sources and device nodes where the engine finds them."""
    words = [word for option in options for word in option["words"]]
    pairs = zip(["", *words], words, strict=False)
    return [_place_option(option, word.replace("$PWD", str(at.work)), at) for option, word in pairs]


def _place_option(option: str, word: str, at: ContainerScene) -> str:
    if option == "--volume":
        source, _, target = word.partition(":")
        return f"{at.to_real_path(source)}:{target}"
    return f"{at.root}{word}:{word}" if option == "--device" else word
