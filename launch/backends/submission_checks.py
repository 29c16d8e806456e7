"""What is judged of a job before it is submitted, without any of its nodes: its command, its ports and its paths.

A wrong option is an error of the command line here; on a node it would look like an unfit node, after hours in a queue.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.job.command import BLANKS, TrainingCommand
from envcheck.job.definition import Job
from envcheck.vendors import VENDORS
from installers.recipes.recipe import RecipeJob
from launch.gates import endpoints
from launch.gates.context import find_launcher_port
from launch.targets.train_request import TrainRequest

HOST_SERVICES = {22: "sshd", 25: "SMTP", 53: "DNS", 80: "HTTP", 111: "rpcbind", 443: "HTTPS"}  # of most servers (IANA)
KERNEL_FOLDERS = ("/proc", "/sys", "/dev")
MEMORY_FOLDER = "/dev/shm"  # a usual file system
# Types of file systems in a machine's own memory or on its own disks (Linux, Documentation/filesystems).
OWN_FILE_SYSTEMS = ("tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat")
FIRST_USER_PORT = 1024  # only root may listen on a lower one
# Values that each node of a job sets, or that have a default there.
SET_ON_NODES = ("rank", "master", "host", "interfaces", "workdir", "output", "log_dir", "config")


def check_values(command: TrainingCommand) -> None:
    """Raise UsageError for a value that no node can determine."""
    for token in command.missing:
        if token not in SET_ON_NODES:
            blank = BLANKS[token]
            raise UsageError(
                _("missing value for {variable}: {meaning}", variable=blank.variable, meaning=blank.meaning),
                _("specify it with --port PORT") if token == "port" else _("specify it with --set or --data"),
            )


def check_ports(job: Job, command: TrainingCommand, taken: Mapping[int, str], is_root: bool) -> None:
    """Raise UsageError for ports that no node can open. `taken` has the ports of the site's own services; `is_root`:
    the launcher runs as root."""
    port = find_launcher_port(command.argv, command.environment)
    if port is None or job.method.nodes < 2:
        return
    another = _("choose another port with --port")
    if not 0 < port <= endpoints.MAX_PORT:
        raise UsageError(_("port {port}: out of range (1-{most})", port=port, most=endpoints.MAX_PORT), another)
    if port in taken:
        raise UsageError(_("port {port} belongs to {service}", port=port, service=taken[port]), another)
    if port < FIRST_USER_PORT and not is_root:
        why = _(
            "port {port} is reserved: only root may listen on ports below {first}", port=port, first=FIRST_USER_PORT
        )
        raise UsageError(why, another)
    span = endpoints.find_port_span(job.recipe, job.method, command, job.device, Facts())
    if clash := endpoints.describe_clash(port, span):
        raise UsageError(clash, another)


def check_device_count(option: str, text: str, count: int, job: RecipeJob, device: str) -> None:
    """Raise UsageError if `text` of the option requests fewer devices (or boards, where a vendor's has several chips)
    than each node of the job uses."""
    cards = job.cards or job.processes
    least = 1 if device == "cpu" else math.ceil(cards / VENDORS[device].chips_per_card)
    if count < least:
        raise UsageError(
            ngettext(
                "{option} {text}: requests {requested} on each node, but the job uses {count} device",
                "{option} {text}: requests {requested} on each node, but the job uses {count} devices",
                cards,
                option=option,
                text=text,
                requested=count,
            ),
            _("request at least {least}, or omit the number", least=least),
        )


def check_runs_folder(runs: Path, is_here: bool) -> None:
    """Raise UsageError if no run folder can be made there; `is_here`: the nodes see the same files as this machine."""
    path = Path(os.path.normpath(_make_absolute(runs)))
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
    if _is_kernel_folder(str(path)) or (is_here and not there.is_dir()):
        raise UsageError(
            _("--runs {path}: no run folder can be made there", path=path), _("choose a folder on a disk with --runs")
        )


def check_storage(storage: str) -> None:
    """Raise UsageError for a path of the nodes that is their root, or a file system of their kernel."""
    path = os.path.normpath(storage)
    if path.strip("/") == "" or _is_kernel_folder(path):
        raise UsageError(
            _("--storage {path} would give the pods the system of the node", path=storage),
            _("use a folder for data, such as /srv/train, or the name of a PersistentVolumeClaim"),
        )


def _is_kernel_folder(path: str) -> bool:
    inside = PurePosixPath(path)
    return any(_is_below(inside, folder) for folder in KERNEL_FOLDERS) and not _is_below(inside, MEMORY_FOLDER)


def check_shared_paths(request: TrainRequest, job: Job, waived: Collection[str] = ()) -> None:
    """Raise UsageError for paths of the options that are missing here, or cannot be made, for nodes that see the same
    files as this machine. `waived` names the preflight checks that the user waived."""
    check_runs_folder(request.runs, is_here=True)
    if request.into is not None and not _exists(request.into):
        raise UsageError(
            _("{option} {path}: no such file or directory", option="--into", path=_make_absolute(request.into)),
            _("make the environment with `envcheck provision`, on a file system that all nodes share"),
        )
    if request.data is None or "data" in waived:
        return
    if job.container is not None and request.into is None:
        where = _("the container of recipe {name}", name=job.recipe.name)
        check_mounted_data(PurePosixPath(str(_make_absolute(request.data))), _list_mounts(job), where)
    path = _find_data(request, job)
    if path is not None and not _exists(path):
        raise UsageError(
            _("{option} {path}: no such file or directory", option="--data", path=path),
            _(
                "use a path on a file system that this machine and all nodes share; if only the nodes have it: "
                "--waive data --because REASON"
            ),
        )


def describe_local_paths(
    request: TrainRequest, job: Job, program: str, mounts: Iterable[tuple[str, str]]
) -> Iterator[Message]:
    """Yield a note for each path that all nodes must see, but that is on a file system of this machine's own memory or
    disks. Whether the nodes see a disk of this machine, because it is exported, cannot be determined here.

    Args:
        program: path of envcheck, which each node starts.
        mounts: folder and type of each mounted file system.
    """
    types = dict(mounts)
    used = {"--runs": request.runs, "--into": request.into, "--data": _find_data(request, job), "envcheck": program}
    for option, path in used.items():
        if path is None:
            continue
        real = Path(os.path.realpath(Path(path).expanduser()))
        kind = next((types[str(folder)] for folder in (real, *real.parents) if str(folder) in types), "")
        if kind in OWN_FILE_SYSTEMS:
            yield _(
                "note: {option} {path} is on a file system of this machine ({kind}): nodes that do not see it at the "
                "same path cannot run the job",
                option=option,
                path=path,
                kind=kind,
            )


def _find_data(request: TrainRequest, job: Job) -> Path | None:
    """Return where --data is on this machine; None without it, or if only the nodes know."""
    if request.data is None:
        return None
    path = _make_absolute(request.data)
    if job.container is None or request.into is not None:
        return path
    return _find_outside(PurePosixPath(str(path)), _list_mounts(job))


def _list_mounts(job: Job) -> dict[str, str]:
    """Return the folder outside of the job's container for each folder inside that is mounted."""
    return {mount.target: mount.source for mount in job.container.spec.mounts} if job.container else {}


def check_remote_paths(request: TrainRequest) -> None:
    """Raise UsageError for relative paths of the options, which are paths on the hosts, and folders of the kernel."""
    check_runs_folder(request.runs, is_here=False)
    for option, path in (("--data", request.data), ("--into", request.into)):
        if path is not None and not path.expanduser().is_absolute():
            raise UsageError(
                _("{option} {path} is relative, but it is a path on the hosts", option=option, path=path),
                _("use an absolute path"),
            )


def check_mounted_data(path: PurePosixPath, mounts: Iterable[str], where: Message) -> None:
    """Raise UsageError for --data outside of the folders that a container or pod mounts; `where` names it."""
    if any(_is_below(path, target) for target in mounts):
        return
    raise UsageError(
        _("--data {path} is not in {where}", path=path, where=where),
        _("use an absolute path below a folder that is mounted there: {folders}", folders=join(", ", mounts)),
    )


def _is_below(path: PurePosixPath, folder: str) -> bool:
    return PurePosixPath(folder) in (path, *path.parents) and ".." not in path.parts


def _find_outside(path: PurePosixPath, mounts: Mapping[str, str]) -> Path | None:
    """Return the path outside of the container, by the deepest mount; None for a folder that only nodes know."""
    below = sorted((target for target in mounts if _is_below(path, target)), key=len)
    source = mounts[below[-1]] if below else ""
    return Path(source) / path.relative_to(below[-1]) if source.startswith("/") else None


def _make_absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _exists(path: Path) -> bool:
    return os.path.lexists(path.expanduser())
