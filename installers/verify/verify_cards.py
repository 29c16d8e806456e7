"""Proof on the cards: each one multiplies matrices, and all of them together add up vectors; every value is compared.

The programs are started as a training is: by the framework's own launcher, after the recipe's scripts were sourced.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core.errors import StepError
from envcheck.core.process import CommandResult
from envcheck.core.vendor import Vendor
from envcheck.vendors import VENDORS
from installers import programs
from installers.recipes.recipe import Recipe
from installers.targets.target import Target, last_lines, seconds

CARDS_S = 300.0  # 16 cards one after the other; the first kernel of each is compiled
COLLECTIVE_S = 300.0  # 3.3 s warm with two processes, 18 s with 16 fake cards on two cores
FOLDER = Path(programs.__path__[0])
TOLERANCE = 0.02  # of the largest value: cards multiply fp32 in fewer bits (TF32, HF32: 10 bits of mantissa)
Prove = Callable[[Recipe, Target, Mapping[str, str]], str]


@dataclass(frozen=True)
class DeviceNames:
    """What a library calls a vendor's devices; the package that brings them ("": the library itself has them), its
    module ("": the library finds it by itself), and the backend of their collectives ("": the library chooses)."""

    type: str
    plugin: str = ""
    module: str = ""
    backend: str = ""


def _by_torch(vendor: Vendor) -> DeviceNames:
    module = vendor.torch_plugin.replace("-", "_")
    return DeviceNames(vendor.torch_device or vendor.name, vendor.torch_plugin, module, vendor.torch_backend)


@dataclass(frozen=True)
class Kit:
    """A library that trains: the packages that bring it, the frameworks that stand on it (whose images hold it), its
    names of the vendors' devices, how it is launched."""

    name: str
    packages: tuple[str, ...]
    frameworks: tuple[str, ...]
    devices: Mapping[str, DeviceNames]
    module: str

    def names_of(self, device: str) -> DeviceNames:
        return self.devices.get(device) or DeviceNames(device)


KITS = (
    Kit(
        "paddle",
        ("paddlepaddle", "paddlepaddle-gpu"),
        ("erniekit", "flagcx"),
        {name: DeviceNames(vendor.device_type or name, vendor.plugin or "") for name, vendor in VENDORS.items()},
        "paddle.distributed.launch",
    ),
    Kit(
        "torch",
        ("torch",),
        ("llamafactory", "swift", "ms-swift"),
        {name: _by_torch(vendor) for name, vendor in VENDORS.items()},
        "torch.distributed.run",
    ),
)


def kit_of(recipe: Recipe) -> Kit | None:
    """What the recipe installs, builds, or has in its image; None where it trains with nothing that we know."""
    names = {package.name.partition("[")[0] for package in recipe.packages} | {build.name for build in recipe.builds}
    installed = next((kit for kit in KITS if names & set(kit.packages)), None)
    with_image = recipe.framework if recipe.image else ""
    return installed or next((kit for kit in KITS if with_image in kit.frameworks), None)


def proofs(recipe: Recipe) -> Iterator[tuple[str, Prove]]:
    """What can be tried with this recipe, each with words for the person who waits."""
    kit = kit_of(recipe)
    if kit and recipe.device != "cpu":
        yield f"multiplying matrices on every card, by {kit.name}", cards
    if kit:
        yield f"adding up vectors in several processes, by {kit.module}", collective


def cards(recipe: Recipe, target: Target, env: Mapping[str, str]) -> str:
    """The plugin loaded, as many cards as the recipe wants are there, and each one's product is the processor's."""
    found, wanted = look(recipe, target, env), recipe.hardware.cards or 1
    if wrong := wrong_cards(found, wanted):
        raise StepError(wrong, f"envcheck doctor --device {recipe.device} tells more about the cards")
    return f"{len(found['cards'])} cards of type {found['type']} multiplied rightly"


def look(recipe: Recipe, target: Target, env: Mapping[str, str]) -> Mapping[str, Any]:
    """What the program for one card after the other answers."""
    kit = kit_of(recipe)
    assert kit
    program = f"{target.fresh('cards')}/cards.py"
    target.write(program, (FOLDER / "cards.py").read_text())
    names = kit.names_of(recipe.device)
    done = started(recipe, target, (program, kit.name, names.type, names.module), env, CARDS_S)
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if done.hung:
        raise StepError(
            f"a product on each card did not end in {seconds(CARDS_S):.0f} s:\n{last_lines(done.out + done.err)}",
            "a card that hangs wants a reset: ask the machine's keeper",
        )
    if done.status != 0 or not line:
        raise StepError(
            f"a product on each card failed:\n{last_lines(done.out + done.err)}",
            f"envcheck doctor --device {recipe.device} tells more about the cards",
        )
    said = json.loads(line.removeprefix("ENVCHECK "))
    return said if isinstance(said, dict) else {}


def wrong_cards(found: Mapping[str, Any], wanted: int) -> str:
    """What is wrong with the cards' answers, "" when nothing is."""
    kind, seen = found.get("type"), found.get("cards") or []
    if not seen:
        known = ", ".join(map(str, found.get("types") or [])) or "none"
        return f"no card of type {kind} is there (types that loaded: {known}): the plugin or the driver did not load"
    if len(seen) < wanted:
        return f"{len(seen)} cards of type {kind} are there, {wanted} are wanted"
    off = [f"{n} by {error:.2g}" for n, error in enumerate(seen) if not 0 <= error <= TOLERANCE]
    return f"cards multiply wrongly: {', '.join(off)} of the largest value" if off else ""


def collective(recipe: Recipe, target: Target, env: Mapping[str, str]) -> str:
    """Processes, started as a training is, sum vectors that only this run knows; on cards one for each of them."""
    count = len(look(recipe, target, env)["cards"]) if recipe.device != "cpu" else 2
    for attempt in (1, 2):
        seed = random.SystemRandom().randrange(1, 1000)
        own = target.fresh("proof")
        done = _launch(recipe, target, env, own, seed, count)
        log = _log(target, own, done)
        if attempt == 1 and done.status != 0 and "ddress already in use" in log:
            continue  # paddle chooses a free port and binds it later: somebody else was quicker
        break
    words = f"adding up in {number(count)} processes"
    if done.hung:
        raise StepError(
            f"{words} did not end in {seconds(COLLECTIVE_S):.0f} s:\n{last_lines(log)}",
            f"is the loopback interface up, and no firewall on it?  the logs are in {own}",
        )
    if done.status != 0:
        why = "a port was in use, twice" if "ddress already in use" in log else f"status {done.status}"
        raise StepError(f"{words} failed ({why}):\n{last_lines(log)}", f"the logs are in {own}")
    if wrong := wrong_values([_answer(target.read(f"{own}/rank-{rank}.json")) for rank in range(count)], seed):
        raise StepError(f"{words} gave wrong values: {wrong}", f"the logs are in {own}")
    target.fresh("proof")
    return f"{number(count)} processes added up to the right values"


def number(count: int) -> str:
    return "two" if count == 2 else str(count)


def _launch(recipe: Recipe, target: Target, env: Mapping[str, str], own: str, seed: int, count: int) -> CommandResult:
    kit = kit_of(recipe)
    assert kit
    program = f"{own}/allreduce.py"
    target.write(program, (FOLDER / "allreduce.py").read_text())
    names = kit.names_of(recipe.device)
    asked = [kit.name, names.type, names.module, names.backend, own, str(seed)]
    argv = ["-m", kit.module, *launcher_options(kit, recipe.device, own, count), program, *asked]
    return started(recipe, target, argv, env, COLLECTIVE_S)


def launcher_options(kit: Kit, device: str, own: str, count: int) -> list[str]:
    """So many ranks, with their words in files below `own`."""
    if kit.name == "torch":
        return ["--standalone", "--nproc-per-node", str(count), "--log-dir", f"{own}/log", "--redirects", "3"]
    chosen = ["--nproc_per_node", str(count), "--host", "127.0.0.1"]
    if device != "cpu":
        chosen = [VENDORS[device].launch_option, ",".join(map(str, range(count)))]
    return [*chosen, "--log_dir", f"{own}/log"]


def started(
    recipe: Recipe, target: Target, arguments: Sequence[str], env: Mapping[str, str], deadline_s: float
) -> CommandResult:
    """The target's Python, as a training finds it."""
    return target.run(sourced(recipe, (target.python, *arguments)), timeout_s=seconds(deadline_s), env=env)


def sourced(recipe: Recipe, argv: Sequence[str]) -> Sequence[str]:
    """The command in a shell of its own that has sourced the recipe's scripts."""
    if not recipe.scripts:
        return argv
    sources = "".join(f'source "${n}" || exit 1; ' for n in range(1, len(recipe.scripts) + 1))
    return ["bash", "-c", f'{sources}shift {len(recipe.scripts)}; exec "$@"', "bash", *recipe.scripts, *argv]


def wrong_values(answers: Iterable[Mapping[str, Any]], seed: int) -> str:
    """What is wrong with the processes' answers, "" when nothing is."""
    said_all = list(answers)
    times = sum(range(1, len(said_all) + 1))
    right = [float(times * (seed + i)) for i in range(64)]
    for rank, said in enumerate(said_all):
        for key, expected in (
            ("rank", rank),
            ("world", len(said_all)),
            ("seed", seed),
            ("half", 1.5),
            ("sums", right),
        ):
            if said.get(key) != expected:
                return f"process {rank} says {key} {str(said.get(key))[:80]}, right is {str(expected)[:80]}"
    return ""


def _answer(text: str) -> Mapping[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _log(target: Target, own: str, done: CommandResult) -> str:
    """The launcher's words, then the processes': theirs hold the reason."""
    names = [name for name in target.names(f"{own}/log") if name.startswith("workerlog.")]
    return "\n".join([done.out, done.err, *(target.read(f"{own}/log/{name}") for name in names)])
