"""Proof of the whole, in child processes: the wanted versions import, and two processes add up to the right values.

paddle.utils.run_check() is no proof: it is content when a plugin did not load, and never looks at the numbers.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from envcheck import runner
from envcheck.errors import StepError
from envcheck.secrets import redact
from installers import environment, journal, mark, programs
from installers.plan import uses_paddle
from installers.recipe import Recipe

IMPORT_S = 120.0  # paddle's import takes 1.2 s warm, 15 s cold on a busy machine
COLLECTIVE_S = 180.0  # 3.3 s warm with two processes
PROCESSES = 2
SHOWN = 12  # last lines of a log that a failure quotes
MODULES = {"paddlepaddle": "paddle", "numpy": "numpy", "torch": "torch"}
PROGRAM = Path(programs.__path__[0]) / "allreduce.py"
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


def all_of(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> str:
    """What was proved, in words.  StepError with the reason and a log's last lines when something is not right."""
    say("importing the packages in a process of their own")
    proved = [imports(recipe, folder)]
    if uses_paddle(recipe):
        say("adding up vectors in two processes by paddle.distributed.launch")
        proved.append(collective(recipe, folder))
    for command in recipe.verify if recipe.device == "cpu" else ():
        say(f"trying {' '.join(command)}"[:200])
        proved.append(verify(recipe, folder, command))
    return "; ".join(proved)


def seconds(default: float) -> float:
    """$ENVCHECK_PROOF_SECONDS, for machines that are slower than any that we know."""
    own = os.environ.get("ENVCHECK_PROOF_SECONDS", "")
    return float(own) if own.isdigit() and int(own) else default


def surroundings(recipe: Recipe, folder: Path) -> dict[str, str]:
    """The caller's environment without what leads a paddle job astray; the environment's programs come first."""
    astray = {*recipe.unset, *STRAY_NAMES}
    kept = {k: v for k, v in os.environ.items() if k not in astray and not k.upper().startswith(STRAY)}
    path = f"{folder / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {**kept, **recipe.environment, "PATH": path, "VIRTUAL_ENV": str(folder), "OMP_NUM_THREADS": "1"}


def imports(recipe: Recipe, folder: Path) -> str:
    """Each package says the version that its files announce, and paddle and numpy say so when imported."""
    names = [package.name.partition("[")[0] for package in recipe.packages]
    wanted = {name: MODULES.get(canonicalize_name(name), "") for name in names}
    argv = (str(folder / "bin" / "python"), "-I", "-c", _ASK, json.dumps(wanted))
    done = runner.run(argv, timeout_s=seconds(IMPORT_S), env=surroundings(recipe, folder), cwd=mark.folder_of(folder))
    if done.hung:
        raise StepError(f"importing {', '.join(names)} did not end in {seconds(IMPORT_S):.0f} s", _again(folder))
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if done.status != 0 or not line:
        raise StepError(f"importing {', '.join(names)} failed:\n{last_lines(done.out + done.err)}", _again(folder))
    told = json.loads(line.removeprefix("ENVCHECK "))
    for package, name in zip(recipe.packages, names, strict=True):
        said, seen = str(told["said"][name]), str(told["seen"].get(name, told["said"][name]))
        if seen != said or not environment.within(said, package.specifier):
            raise StepError(
                f"{name} announces version {said}, imports as {seen}, and wanted is {package.specifier or 'any'}",
                "the wheel is not what its name says: look at the index",
            )
    return "imported " + ", ".join(f"{name} {told['said'][name]}" for name in names)


def collective(recipe: Recipe, folder: Path) -> str:
    """Two processes, started as a training is, sum vectors that only this run knows; every value is compared."""
    own = mark.folder_of(folder) / "proof"
    for attempt in (1, 2):
        seed = random.SystemRandom().randrange(1, 1000)
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        done = _launch(recipe, folder, own, seed)
        log = _log(own, done)
        if attempt == 1 and done.status != 0 and "ddress already in use" in log:
            continue  # paddle chooses a free port and binds it later: somebody else was quicker
        break
    if done.hung:
        raise StepError(
            f"adding up in two processes did not end in {seconds(COLLECTIVE_S):.0f} s:\n{last_lines(log)}",
            f"is the loopback interface up, and no firewall on it?  the logs are in {own}",
        )
    if done.status != 0:
        why = "a port was in use, twice" if "ddress already in use" in log else f"status {done.status}"
        raise StepError(f"adding up in two processes failed ({why}):\n{last_lines(log)}", f"the logs are in {own}")
    if wrong := wrong_values([_answer(own / f"rank-{rank}.json") for rank in range(PROCESSES)], seed):
        raise StepError(f"adding up in two processes gave wrong values: {wrong}", f"the logs are in {own}")
    shutil.rmtree(own, ignore_errors=True)
    return "two processes added up to the right values"


def _launch(recipe: Recipe, folder: Path, own: Path, seed: int) -> runner.CommandResult:
    python = str(folder / "bin" / "python")
    argv = [python, "-m", "paddle.distributed.launch", "--nproc_per_node", str(PROCESSES), "--host", "127.0.0.1"]
    argv += ["--log_dir", str(own / "log"), str(PROGRAM), str(own), str(seed)]
    return runner.run(argv, timeout_s=seconds(COLLECTIVE_S), env=surroundings(recipe, folder), cwd=own)


def wrong_values(answers: Iterable[Mapping[str, Any]], seed: int) -> str:
    """What is wrong with the processes' answers, "" when nothing is."""
    times = sum(range(1, PROCESSES + 1))
    right = [float(times * (seed + i)) for i in range(64)]
    for rank, said in enumerate(answers):
        for key, expected in (("rank", rank), ("world", PROCESSES), ("seed", seed), ("half", 1.5), ("sums", right)):
            if said.get(key) != expected:
                return f"process {rank} says {key} {str(said.get(key))[:80]}, right is {str(expected)[:80]}"
    return ""


def _answer(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            said = json.loads(file.read(1 << 16))
        return said if isinstance(said, dict) else {}
    except (OSError, ValueError):
        return {}


def verify(recipe: Recipe, folder: Path, command: tuple[str, ...]) -> str:
    """One of the recipe's own commands, which must end well."""
    argv = [part.replace("{python}", str(folder / "bin" / "python")) for part in command]
    own = mark.folder_of(folder)
    done = runner.run(argv, timeout_s=seconds(COLLECTIVE_S), env=surroundings(recipe, folder), cwd=own)
    if done.status != 0:
        raise StepError(
            f"{' '.join(argv)} ended with {done.status}:\n{last_lines(done.out + done.err)}", _again(folder)
        )
    return f"{' '.join(command)} ended well"


def _log(own: Path, done: runner.CommandResult) -> str:
    """The launcher's words, then the processes': theirs hold the reason."""
    logs = [path.read_text("utf-8", "replace") for path in sorted((own / "log").glob("workerlog.*"))]
    return "\n".join([done.out, done.err, *logs])


def last_lines(text: str) -> str:
    lines = [line for line in redact(text).splitlines() if line.strip()]
    return "\n".join(f"    {line[:300]}" for line in lines[-SHOWN:])


def _again(folder: Path) -> str:
    return f"repeat; if it stays so: envcheck provision --undo, then again (journal: {journal.path(folder)})"
