"""What the tests of containers share: a simulated machine whose files a real engine can mount, and flat documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envcheck.collect import facts
from envcheck.collect.machine import Machine, simulated
from envcheck.core.facts import Engine, Facts
from envcheck.job.cards import count_cards, select_card_ids
from envcheck.job.container import derive_container
from envcheck.simulate.build import build
from envcheck.simulate.machine_file import load
from installers.containers.container_host import observe
from installers.containers.host_paths import ContainerPlan, plan_container
from installers.recipes import catalogue
from installers.recipes.container_spec import Port, Spec, Ulimit
from installers.recipes.recipe import Mount, Recipe

SPEC = Spec(
    name="box",
    image="name@sha256:12",
    recipe="little",
    workdir="/workspace",
    mounts=(Mount("/data", "/data"), Mount("/etc/info", "/etc/info", True)),
    devices=("/dev/card0:/dev/card0:rwm", "/dev/card1:/dev/card1:rwm"),
    capabilities=("SYS_PTRACE", "IPC_LOCK"),
    shm_bytes=64 << 30,
    ports=(Port("127.0.0.1", 7860, 7860), Port("", 53, 53, "udp")),
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


@dataclass(frozen=True)
class Scene:
    """A recipe on its machine; `root` is that machine's file system, `work` the user's folder, which is a real one.

    `facts` are the machine's, with the runtimes of another engine where `with_runtimes` says so.
    """

    recipe: Recipe
    root: Path
    work: Path
    machine: Machine
    facts: Facts

    def with_runtimes(self, *runtimes: str) -> Scene:
        return replace(self, facts=replace(self.facts, engine=Engine("26.1.3", runtimes)))

    def drawn(self, image: str = "image", as_published: bool = False) -> ContainerPlan:
        device = self.recipe.device
        ids = select_card_ids(self.recipe, self.facts, device, count_cards(self.recipe, device))
        made = derive_container(self.recipe, self.facts, device, ids, "x86_64", str(self.work), as_published)
        assert made
        return plan_container(self.recipe, made, image, observe(made, self.machine))

    def real(self, path: str) -> str:
        """The path where the engine finds the simulated machine's file; /dev and the user's folder are real."""
        known = path == "/dev" or Path(path).is_relative_to(self.work)
        return path if known else f"{self.root}{path}"

    def shown(self, path: str) -> str:
        """The reverse of `real`; the user's folder is `.`."""
        return path.removeprefix(str(self.root)).replace(str(self.work), ".")

    def on_engine(self, spec: Spec) -> Spec:
        """The Spec with its sources where the engine finds them."""
        mounts = tuple(replace(m, source=self.real(m.source)) for m in spec.mounts)
        return replace(spec, mounts=mounts, devices=tuple(f"{self.root}{device}" for device in spec.devices))


def scene(name: str, machine: str, folder: Path) -> Scene:
    """The recipe `name` on the simulated `machine`, built in `folder` with device nodes that are real ones for root."""
    (folder / "sim").mkdir()
    (folder / "work").mkdir()
    build(load(machine), folder / "sim", 0.0)
    door, root = simulated(folder / "sim"), folder / "sim" / "root"
    for number, node in enumerate(sorted((root / "dev").glob("*"))):
        if os.geteuid() == 0:
            node.unlink()
            os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(LOCAL_MAJOR, number))
    recipe = catalogue.by_name(catalogue.load_all(), name)
    return Scene(recipe, root, folder / "work", door, facts.gather(door, recipe.device))


def flat(inspected: Mapping[str, Any], at: Scene) -> dict[str, str]:
    """A document of `docker inspect`, one line for each value, lists by what their items are about."""
    found = {"Name": inspected["Name"], "Image": inspected["Image"]}
    for part in ("Config", "HostConfig"):
        found |= dict(_leaves(part, inspected[part]))
    for mount in inspected["Mounts"]:
        words = (at.shown(mount["Source"]), "rw" if mount["RW"] else "ro", mount["Propagation"] or "rprivate")
        found[f"Mounts {mount['Destination']}"] = " ".join(words)
    for line in inspected["Config"]["Env"] or ():
        found[f"Config.Env {line.partition('=')[0]}"] = line.partition("=")[2]
    for device in inspected["HostConfig"]["Devices"] or ():
        words = (at.shown(device["PathOnHost"]), device["CgroupPermissions"])
        found[f"HostConfig.Devices {device['PathInContainer']}"] = " ".join(words)
    for way in ("Binds", "Mounts"):  # two spellings of what stands in Mounts above: only which one was used
        found[f"HostConfig.{way}"] = "used" if inspected["HostConfig"].get(way) else "not used"
    listed = ("Config.Env", "HostConfig.Devices", *NOT_ASKED)
    return {name: str(value) for name, value in found.items() if name not in listed}


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """Nothing, an empty list and an empty table are one: engines and clients differ in which they write."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{name}.{key}", inner)]
    return [] if value in (None, [], {}, "") else [(name, value)]


def seed_words(options: list[Mapping[str, Any]], at: Scene) -> list[str]:
    """A document's options, with sources and device nodes where the engine finds them."""
    words = [word for option in options for word in option["words"]]
    pairs = zip(["", *words], words, strict=False)
    return [_placed(option, word.replace("$PWD", str(at.work)), at) for option, word in pairs]


def _placed(option: str, word: str, at: Scene) -> str:
    if option == "--volume":
        source, _, target = word.partition(":")
        return f"{at.real(source)}:{target}"
    return f"{at.root}{word}:{word}" if option == "--device" else word
