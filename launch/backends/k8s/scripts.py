"""What runs in a pod, as shell scripts: which node it is, the gates, the training.  Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.job import placeholders
from envcheck.job.command import BLANKS, TrainingCommand, render
from envcheck.job.repeat_options import format_job_options, format_own_options
from envcheck.job.script import script
from installers.recipes.recipe import Recipe
from launch.backends.k8s import pod_recipes, tables
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.targets.request import TrainRequest

JOB, SENT, KIT = "/envcheck/job", "/envcheck/sent", "/envcheck/kit"  # the scripts, envcheck packed, envcheck unpacked
PLACE = "place.sh"
SAID = ("rank", "master", "host", "interfaces", "workdir", "output", "log_dir", "config")  # by place.sh and run.sh
ROOM = "/workspace"  # where a recipe names no folder

# Prints the interface that has the address: FlagCX wants it by its name.
INTERFACE = """\
import fcntl, socket, struct, sys
for _, name in socket.if_nameindex():
    try:
        asked = struct.pack("256s", name.encode()[:15])
        found = fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8915, asked)
    except OSError:
        continue
    if socket.inet_ntoa(found[20:24]) == sys.argv[1]:
        print(name)
"""

# Joins what the ConfigMaps hold, and unpacks it where both containers see it; any Python reads this.
UNPACK = f"""\
import glob, hashlib, io, sys, zipfile
data = b"".join(open(name, "rb").read() for name in sorted(glob.glob("{SENT}/*")))
if hashlib.sha256(data).hexdigest() != sys.argv[1]:
    sys.exit("envcheck: what was sent to this pod is not what the job names: submit it again")
zipfile.ZipFile(io.BytesIO(data)).extractall("{KIT}")
"""


def texts(request: TrainRequest, said: K8sOptions, every: tuple[PodGroup, ...]) -> dict[str, str]:
    """File -> text of the whole job."""
    found = {PLACE: place(request, said, every)}
    for part in every:
        found[named("run.sh", part)] = script(command(request, part))
        found[named("gate.sh", part)] = gate(request, part)
    return found


def named(file: str, part: PodGroup) -> str:
    """run.sh, of a role run-nvidia.sh."""
    stem, _, end = file.rpartition(".")
    return f"{stem}-{part.role}.{end}" if part.role else file


def command(request: TrainRequest, part: PodGroup) -> TrainingCommand:
    """As --dry-run of one machine has it, with what is so in every pod; UsageError where a person has to say more."""
    port = part.method.port or tables.kind_of(part.recipe.framework).port["containerPort"]
    known = {"python": part.recipe.interpreter, "port": str(port), **placeholders.fill_placeholders(request)}
    if any("{program}" in word for word in part.method.launcher):
        ours = f"{KIT}/launch/programs"
        known |= {"program": f"{ours}/tiny.py", "data": f"{ours}/tiny.txt"}
    if request.data:
        known["data"] = str(request.data)
    made = render(part.recipe, part.method, known)
    for token in made.missing:
        if token not in SAID:
            blank = BLANKS[token]
            raise UsageError(
                f"a pod cannot be asked for {blank.variable}: {blank.meaning}", "say it by --set or --data"
            )
    return replace(made, container=(), folders=())  # the pod is the container


def runs(recipe: Recipe) -> str:
    """The folder of the runs, which outlives the pod."""
    return recipe.runs or f"{(recipe.container and recipe.container.workdir) or ROOM}/runs"


def place(request: TrainRequest, said: K8sOptions, every: tuple[PodGroup, ...]) -> str:
    """Sourced by the two others; it waits for node 0's name, which leads nowhere before its gates have opened."""
    return "\n".join(_place(request, said, every)) + "\n"


def _place(request: TrainRequest, said: K8sOptions, every: tuple[PodGroup, ...]) -> Iterator[str]:
    several = sum(part.count for part in every) > 1
    yield "# Which node this pod is: sourced before the gates and before the training."
    yield "export NODE_RANK=$((FIRST_RANK + REPLICA_INDEX))"
    node = "-node$NODE_RANK" if several else ""
    yield f"export RUN_DIR={shlex.quote(runs(every[0].recipe))}/{said.name}{node}"
    if several:
        yield "# Node 0 opens the port on its own address; its name is known once its own gates have opened."
        yield 'if [ "$NODE_RANK" -eq 0 ]; then MASTER_ADDR=$HOST_ADDR; else'
        yield "  MASTER_ADDR="
        yield f"  for _ in $(seq {round(request.gather_s)}); do"
        yield '    MASTER_ADDR=$(getent ahostsv4 "$MASTER_NAME" | { read -r address _ && echo "$address"; }) && break'
        yield "    sleep 1"
        yield "  done"
        words = f"$MASTER_NAME has no address after {request.gather_s:.0f} s"
        yield f'  [ -n "$MASTER_ADDR" ] || {{ echo "{words}" >&2; exit 1; }}'
        yield "fi"
        yield "export MASTER_ADDR"
    if any("interfaces" in command(request, part).missing for part in every):
        yield "# The interface that has this pod's address."
        yield f'SOCKET_IFNAMES=$({every[0].recipe.interpreter} -c {shlex.quote(INTERFACE)} "$HOST_ADDR")'
        yield "export SOCKET_IFNAMES"


def gate(request: TrainRequest, part: PodGroup) -> str:
    """Exit code 0 lets the training start.  What nobody could tell is said and closes nothing, as on one machine."""
    there = replace(request, recipes=Path(JOB) if pod_recipes.files(request, (part,)) else None, extra=())
    pairs = [("--waive", text) for text in request.waive] + [("--because", text) for text in request.because]
    said = [format_job_options(there, pod_recipes.renamed(part.recipe), part.method), format_own_options(there)]
    said += [shlex.join(word for pair in pairs for word in pair)]
    several = '--rank "$NODE_RANK" --master "$MASTER_ADDR" --host "$HOST_ADDR"' if part.method.nodes > 1 else ""
    behind = f" -- {shlex.join(request.extra)}" if request.extra else ""
    rows = [
        "#!/usr/bin/env bash",
        "# envcheck looks at this pod before the training starts in it; a closed gate ends the job with its report.",
        "# What tells the training its place would be a left-over here.",
        f'{part.recipe.interpreter} -c {shlex.quote(UNPACK)} "$KIT_DIGEST" || exit',
        f"env -u NODE_RANK -u MASTER_ADDR {part.recipe.interpreter} {KIT} \\",
        f"  train --gates {' '.join(filter(None, (*said, several)))} \\",
        f'  --runs "${{RUN_DIR%/*}}"{behind}',
        "code=$?",
        '[ "$code" -ne 3 ] || code=0  # 3: nothing is closed, and something could not be told',
        'exit "$code"',
    ]
    return "\n".join(rows) + "\n"
