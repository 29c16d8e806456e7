"""The shell scripts of a pod: its rank, the preflight checks, and the training."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.job import placeholders
from envcheck.job.command import BLANKS, TrainingCommand, render_command
from envcheck.job.repeat_options import format_job_options, format_own_options
from envcheck.job.shell_script import render_script
from installers.recipes.recipe import Recipe
from launch.backends.k8s import pod_recipes
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.targets.train_request import TrainRequest

JOB, SENT, KIT = (
    "/envcheck/job",
    "/envcheck/sent",
    "/envcheck/kit",
)  # mounts: scripts, packed envcheck, unpacked envcheck
PLACE = "place.sh"
SET_IN_POD = (
    "rank",
    "master",
    "host",
    "interfaces",
    "workdir",
    "output",
    "log_dir",
    "config",
)  # by place.sh and run.sh
DEFAULT_WORKDIR = "/workspace"  # for recipes without a working directory

# Prints the name of the interface with an IPv4 address (0x8915: SIOCGIFADDR); FlagCX needs the name.
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

# Joins the parts of the ConfigMaps and unpacks them into the volume that both containers share; runs on any Python 3.
UNPACK = f"""\
import glob, hashlib, io, sys, zipfile
data = b"".join(open(name, "rb").read() for name in sorted(glob.glob("{SENT}/*")))
if hashlib.sha256(data).hexdigest() != sys.argv[1]:
    sys.exit("envcheck: the checksum of envcheck in this pod does not match the job; submit the job again")
zipfile.ZipFile(io.BytesIO(data)).extractall("{KIT}")
"""


def build_scripts(request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...]) -> dict[str, str]:
    """Return file name → text of all scripts of the job."""
    found = {PLACE: render_place_script(request, options, groups)}
    for part in groups:
        found[name_script("run.sh", part)] = render_script(build_command(request, part))
        found[name_script("gate.sh", part)] = render_gate_script(request, part)
    return found


def name_script(file: str, part: PodGroup) -> str:
    """Return the name of a script, with the role for jobs with roles: run.sh, run-nvidia.sh."""
    stem, _, end = file.rpartition(".")
    return f"{stem}-{part.role}.{end}" if part.role else file


def build_command(request: TrainRequest, part: PodGroup) -> TrainingCommand:
    """Return the training command with the values that all pods share; UsageError if a value is missing."""
    port = part.method.port or part.kind.port["containerPort"]
    known = {"python": part.recipe.interpreter, "port": str(port), **placeholders.fill_placeholders(request)}
    if any("{program}" in word for word in part.method.launcher):
        ours = f"{KIT}/launch/programs"
        known |= {"program": f"{ours}/tiny.py", "data": f"{ours}/tiny.txt"}
    if request.data:
        known["data"] = str(request.data)
    made = render_command(part.recipe, part.method, known)
    for token in made.missing:
        if token not in SET_IN_POD:
            blank = BLANKS[token]
            raise UsageError(
                _("missing value for {variable}: {meaning}", variable=blank.variable, meaning=blank.meaning),
                _("specify it with --set or --data"),
            )
    return replace(made, container=(), folders=())  # the pod is the container


def choose_runs_folder(recipe: Recipe) -> str:
    """Return the folder for runs, which is on a volume that outlives the pod."""
    return recipe.runs or f"{(recipe.container and recipe.container.workdir) or DEFAULT_WORKDIR}/runs"


def render_place_script(request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...]) -> str:
    """Return the script that the two others source. It waits for the DNS name of rank 0, which exists only after the
    preflight checks of that pod have passed."""
    return "\n".join(_place_script_lines(request, options, groups)) + "\n"


def _place_script_lines(request: TrainRequest, options: K8sOptions, groups: tuple[PodGroup, ...]) -> Iterator[str]:
    several = sum(part.count for part in groups) > 1
    yield "# Rank and master address of this pod; sourced before the preflight checks and the training."
    yield "export NODE_RANK=$((FIRST_RANK + REPLICA_INDEX))"
    node = "-node$NODE_RANK" if several else ""
    yield f"export RUN_DIR={shlex.quote(choose_runs_folder(groups[0].recipe))}/{options.name}{node}"
    if several:
        yield "# The name of rank 0 resolves only after its preflight checks have passed."
        yield 'if [ "$NODE_RANK" -eq 0 ]; then MASTER_ADDR=$HOST_ADDR; else'
        yield "  MASTER_ADDR="
        yield f"  for _ in $(seq {round(request.gather_s)}); do"
        yield '    MASTER_ADDR=$(getent ahostsv4 "$MASTER_NAME" | { read -r address _ && echo "$address"; }) && break'
        yield "    sleep 1"
        yield "  done"
        words = f"envcheck: cannot resolve $MASTER_NAME within {request.gather_s:.0f} s"
        yield f'  [ -n "$MASTER_ADDR" ] || {{ echo "{words}" >&2; exit 1; }}'
        yield "fi"
        yield "export MASTER_ADDR"
    if any("interfaces" in build_command(request, part).missing for part in groups):
        yield "# Network interface with the address of this pod."
        yield f'SOCKET_IFNAMES=$({shlex.quote(groups[0].recipe.interpreter)} -c {shlex.quote(INTERFACE)} "$HOST_ADDR")'
        yield "export SOCKET_IFNAMES"


def render_gate_script(request: TrainRequest, part: PodGroup) -> str:
    """Return the script of the init container: exit code 0 starts the training, also after unknown results."""
    in_pod = replace(request, recipes=Path(JOB) if pod_recipes.build_recipe_files(request, (part,)) else None, extra=())
    pairs = [("--waive", text) for text in request.waive] + [("--because", text) for text in request.because]
    words = [
        format_job_options(in_pod, pod_recipes.rename_for_pod(part.recipe), part.method),
        format_own_options(in_pod),
    ]
    words += [shlex.join(word for pair in pairs for word in pair)]
    several = '--rank "$NODE_RANK" --master "$MASTER_ADDR" --host "$HOST_ADDR"' if part.method.nodes > 1 else ""
    behind = f" -- {shlex.join(request.extra)}" if request.extra else ""
    rows = [
        "#!/usr/bin/env bash",
        "# Preflight checks of this pod; if one fails, the job ends with its report.",
        "# Rank and master of the training are unset: the checks would report them as leftovers of another job.",
        f'{shlex.quote(part.recipe.interpreter)} -c {shlex.quote(UNPACK)} "$KIT_DIGEST" || exit',
        f"env -u NODE_RANK -u MASTER_ADDR {shlex.quote(part.recipe.interpreter)} {KIT} \\",
        f"  train --gates {' '.join(filter(None, (*words, several)))} \\",
        f'  --runs "${{RUN_DIR%/*}}"{behind}',
        "code=$?",
        '[ "$code" -ne 3 ] || code=0  # 3: no check failed, but some results are unknown',
        'exit "$code"',
    ]
    return "\n".join(rows) + "\n"
