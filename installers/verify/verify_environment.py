"""Proof of the whole, in child processes: the wanted versions import, every card computes, all of them add up rightly.

paddle.utils.run_check() is no proof: it is content when a plugin did not load, and never looks at the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from packaging.utils import canonicalize_name

from envcheck.core.errors import StepError
from installers.recipes.recipe import Recipe
from installers.state import environment, journal
from installers.targets.target import Target, last_lines, seconds
from installers.verify import verify_cards
from installers.verify.frameworks import sourced

IMPORT_S = 120.0  # paddle's import takes 1.2 s warm, 15 s cold on a busy machine
VERIFY_S = 180.0
MODULES = {"paddlepaddle": "paddle", "numpy": "numpy", "torch": "torch"}
# What other jobs leave in a shell and what launch or paddle would obey before its own options.
STRAY = ("PADDLE_", "FLAGS_", "DISTRIBUTED_TRAINER_", "PYTHON", "OMPI_", "SLURM_", "MASTER_", "LD_PRELOAD")
STRAY_NAMES = ("POD_IP", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES")

_ASK = """
import importlib, importlib.metadata, json, sys
wanted = json.loads(sys.argv[1])
said = {name: importlib.metadata.version(name) for name in wanted}
seen = {name: str(importlib.import_module(module).__version__) for name, module in wanted.items() if module}
print("\\nENVCHECK " + json.dumps({"said": said, "seen": seen}))
"""


def all_of(recipe: Recipe, target: Target, say: Callable[[str], None]) -> str:
    """What was proved, in words.  StepError with the reason and a log's last lines when something is not right."""
    say("importing the packages in a process of their own")
    proved = [imports(recipe, target)] if recipe.packages else []
    for words, prove in verify_cards.proofs(recipe):
        say(words)
        proved.append(prove(recipe, target, surroundings(recipe, target)))
    for command in recipe.verify:
        say(f"trying {' '.join(_filled(target, command))}"[:200])
        proved.append(verify(recipe, target, command))
    return "; ".join(proved)


def surroundings(recipe: Recipe, target: Target) -> dict[str, str]:
    """The target's variables without what leads a job astray, and the recipe's."""
    astray = {*recipe.unset, *STRAY_NAMES}
    kept = {k: v for k, v in target.surroundings().items() if k not in astray and not k.upper().startswith(STRAY)}
    return {**kept, **recipe.environment, "OMP_NUM_THREADS": "1"}


def imports(recipe: Recipe, target: Target) -> str:
    """Each package says the version that its files announce, and paddle and numpy say so when imported."""
    names = [package.name.partition("[")[0] for package in recipe.packages]
    wanted = {name: MODULES.get(canonicalize_name(name), "") for name in names}
    asked = ("-I", "-c", _ASK, json.dumps(wanted))
    done = target.run(
        sourced(recipe, (target.python, *asked)), timeout_s=seconds(IMPORT_S), env=surroundings(recipe, target)
    )
    if done.hung:
        raise StepError(f"importing {', '.join(names)} did not end in {seconds(IMPORT_S):.0f} s", _again(target))
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if done.status != 0 or not line:
        raise StepError(f"importing {', '.join(names)} failed:\n{last_lines(done.out + done.err)}", _again(target))
    told = json.loads(line.removeprefix("ENVCHECK "))
    for package, name in zip(recipe.packages, names, strict=True):
        said, seen = str(told["said"][name]), str(told["seen"].get(name, told["said"][name]))
        if seen != said or not environment.within(said, package.specifier):
            raise StepError(
                f"{name} announces version {said}, imports as {seen}, and wanted is {package.specifier or 'any'}",
                "the wheel is not what its name says: look at the index",
            )
    return "imported " + ", ".join(f"{name} {told['said'][name]}" for name in names)


def verify(recipe: Recipe, target: Target, command: tuple[str, ...]) -> str:
    """One of the recipe's own commands, which must end well."""
    argv = _filled(target, command)
    done = target.run(sourced(recipe, argv), timeout_s=seconds(VERIFY_S), env=surroundings(recipe, target))
    if done.status != 0:
        raise StepError(
            f"{' '.join(argv)} ended with {done.status}:\n{last_lines(done.out + done.err)}", _again(target)
        )
    return f"{' '.join(argv)} ended well"


def _filled(target: Target, command: tuple[str, ...]) -> list[str]:
    return [part.replace("{python}", target.python) for part in command]


def _again(target: Target) -> str:
    return (
        f"repeat; if it stays so: envcheck provision --undo, then again (journal: {journal.path(target.notes.parent)})"
    )
