"""All checks of an installation, in child processes: imports and versions, cards, the recipe's own commands.

paddle.utils.run_check() is not sufficient: it succeeds if a plugin did not load, and does not check any result.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from packaging.utils import canonicalize_name

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, join
from installers.recipes.recipe import Recipe
from installers.recipes.validation import find_placeholders
from installers.state import environment, journal
from installers.targets.target import Target, last_lines, proof_timeout_s
from installers.verify import device_checks
from installers.verify.frameworks import source_scripts

IMPORT_S = 120.0  # importing paddle takes 1.2 s warm, 15 s cold on a busy machine
VERIFY_S = 180.0
MODULES = {"paddlepaddle": "paddle", "numpy": "numpy", "torch": "torch"}
# Variables left in the shell by other jobs, which paddle or its launcher would prefer to their own options.
STRAY = ("PADDLE_", "FLAGS_", "DISTRIBUTED_TRAINER_", "PYTHON", "OMPI_", "SLURM_", "MASTER_", "LD_PRELOAD")
STRAY_NAMES = ("POD_IP", "RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES")

_ASK = """
import importlib, importlib.metadata, json, sys
wanted = json.loads(sys.argv[1])
listed = {name: importlib.metadata.version(name) for name in wanted}
imported = {name: str(importlib.import_module(module).__version__) for name, module in wanted.items() if module}
print("\\nENVCHECK " + json.dumps({"listed": listed, "imported": imported}))
"""


def verify_all(recipe: Recipe, target: Target, say: Callable[[str], None]) -> Message:
    """Run all checks and return their results; raise StepError with the reason and the last lines of a log.

    `say` is called with a message before each check.
    """
    say(_("import the packages"))
    results = [verify_imports(recipe, target)] if recipe.packages else []
    for description, check in device_checks.list_proofs(recipe):
        say(description)
        results.append(check(recipe, target, job_environment(recipe, target)))
    for command in recipe.verify:
        say(_("run {command}", command=" ".join(_fill_python(target, command))[:190]))
        results.append(verify_command(recipe, target, command))
    return join("; ", results)


def job_environment(recipe: Recipe, target: Target) -> dict[str, str]:
    """Return the target's variables without those that would mislead a job, plus the recipe's."""
    dropped = {*recipe.unset, *STRAY_NAMES}
    kept = {k: v for k, v in target.list_variables().items() if k not in dropped and not k.upper().startswith(STRAY)}
    return {**kept, **job_variables(recipe)}


def job_variables(recipe: Recipe) -> dict[str, str]:
    """Return the variables that a check sets, here and in a script.

    Those that only a job gives a value, such as {devices}, are left out: a check uses all cards of its target.
    """
    known = {name: value for name, value in recipe.environment.items() if not find_placeholders(value)}
    return {**known, "OMP_NUM_THREADS": "1"}


def list_modules(recipe: Recipe) -> dict[str, str]:
    """Return the module of each package, "" where only the package's metadata is checked."""
    names = [package.name.partition("[")[0] for package in recipe.packages]
    return {name: MODULES.get(canonicalize_name(name), "") for name in names}


def verify_imports(recipe: Recipe, target: Target) -> Message:
    """Check the version of each package in its metadata, and of known modules also after import."""
    wanted = list_modules(recipe)
    names = list(wanted)
    asked = ("-I", "-c", _ASK, json.dumps(wanted))
    done = target.run_command(
        source_scripts(recipe, (target.python, *asked)),
        timeout_s=proof_timeout_s(IMPORT_S),
        env=job_environment(recipe, target),
    )
    if done.hung:
        raise StepError(
            _(
                "importing {names} did not finish within {limit_s:.0f} s",
                names=join(", ", names),
                limit_s=proof_timeout_s(IMPORT_S),
            ),
            _repeat_hint(target),
        )
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if done.status != 0 or not line:
        raise StepError(
            _("importing {names} failed:\n{output}", names=join(", ", names), output=last_lines(done.out + done.err)),
            _repeat_hint(target),
        )
    found = json.loads(line.removeprefix("ENVCHECK "))
    for package in recipe.packages:
        name = package.name.partition("[")[0]
        listed = str(found["listed"][name])
        imported = str(found["imported"].get(name, listed))
        if imported != listed or not environment.is_allowed_version(listed, package.specifier):
            raise StepError(
                _(
                    "{name}: metadata lists version {listed}, the imported module {imported}; required: {specifier}",
                    name=name,
                    listed=listed,
                    imported=imported,
                    specifier=package.specifier or _("any version"),
                ),
                _("the wheel does not match its name; check the package index"),
            )
    return _("imported {packages}", packages=join(", ", (f"{name} {found['listed'][name]}" for name in names)))


def verify_command(recipe: Recipe, target: Target, command: tuple[str, ...]) -> Message:
    """Run one of the recipe's own commands; raise StepError if it fails."""
    argv = _fill_python(target, command)
    done = target.run_command(
        source_scripts(recipe, argv), timeout_s=proof_timeout_s(VERIFY_S), env=job_environment(recipe, target)
    )
    if done.status != 0:
        raise StepError(
            _(
                "{command} failed with exit code {status}:\n{output}",
                command=" ".join(argv),
                status=done.status,
                output=last_lines(done.out + done.err),
            ),
            _repeat_hint(target),
        )
    return _("{command} succeeded", command=" ".join(argv))


def _fill_python(target: Target, command: tuple[str, ...]) -> list[str]:
    return [part.replace("{python}", target.python) for part in command]


def _repeat_hint(target: Target) -> Message:
    return _(
        "run the same command again; if it fails again, run `envcheck provision --undo` first (journal: {journal})",
        journal=journal.journal_path(target.notes_folder.parent),
    )
