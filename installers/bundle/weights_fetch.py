"""Download model weights: the command, what its failures mean, and whether the disk has enough space.

The command runs where the recipe's packages are, in the container or the environment.  Run again, it downloads what is
incomplete: by file (a shard has 5 GB or less), and with huggingface_hub 0.x, modelscope and Xet from the byte where it
was cut off (huggingface_hub 2.4 restarts a cut-off file from a plain http server).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, fill, mark, verbatim
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact_text
from envcheck.core.units import GIB, format_gib
from envcheck.settings.site_access import HUB_SERVERS, HubServer
from installers.programs.fetch_weights import ABSENT
from installers.recipes.recipe import Mount, Recipe

PROGRAM = Path(__file__).parent.parent / "programs" / "fetch_weights.py"
DEADLINE_S = 7 * 24 * 3600.0  # 600 GB at 1 MB/s take a week
SPARE_BYTES = 1 << 30
HUB_VARIABLES = (
    *("HF_TOKEN", "MODELSCOPE_API_TOKEN"),
    *(name for server in HUB_SERVERS.values() for name in server.variables),
)
AGAIN = _("run the same command again; completed files are not downloaded again")


@dataclass(frozen=True)
class HubDownload:
    """One hub that has the model; `folder` is a path on the target, "" for the hub's own cache."""

    hub: str
    repository: str
    folder: str
    revision: str = ""

    def build_argv(self, python: str) -> tuple[str, ...]:
        """Return the command for the recipe's Python; the program is passed as text, because a container lacks
        envcheck's files.
        """
        return (python, "-c", PROGRAM.read_text("utf-8"), *self.arguments)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of the program."""
        return (self.hub, self.repository, self.folder, *filter(None, (self.revision,)))


def list_downloads(recipe: Recipe) -> tuple[HubDownload, ...]:
    """Return the hubs to try, in the recipe's order; empty if it lists none."""
    weights = recipe.weights
    if weights is None:
        return ()
    workdir = recipe.workdir or (recipe.container.workdir if recipe.container else "")
    folder = posixpath.join(workdir, weights.folder) if weights.folder else ""
    said = {"huggingface": weights.huggingface, "modelscope": weights.modelscope}
    order = sorted(said, key=lambda hub: hub != weights.first)
    return tuple(HubDownload(hub, said[hub], folder, weights.revision) for hub in order if said[hub])


def find_host_path(path: str, mounts: Iterable[Mount], here: Path) -> Path | None:
    """Return the host's path of a container path; None if it is on no mount and would be lost with the container.

    `here` is the folder that relative mount sources refer to.
    """
    wanted = posixpath.normpath(path)
    fitting = [m for m in mounts if wanted == m.target or wanted.startswith(m.target.rstrip("/") + "/")]
    if not fitting:
        return None
    mount = max(fitting, key=lambda m: len(m.target))
    return here / mount.source / posixpath.relpath(wanted, mount.target)


def explain_missing_space(size_gib: float | None, there_bytes: int, free_bytes: int | None) -> Message | None:
    """Return why the weights do not fit on the disk, None if they do or it is unknown."""
    if size_gib is None or free_bytes is None:
        return None
    needed = max(0, int(size_gib * GIB) - there_bytes)
    if not needed or needed + SPARE_BYTES <= free_bytes:
        return None
    return _(
        "{needed} needed for the remaining files; {free_bytes} free",
        free_bytes=format_gib(free_bytes),
        needed=format_gib(needed + SPARE_BYTES),
    )


def present_bytes(folder: Path) -> int:
    """Return the size of what an earlier download left: complete files and the libraries' partial files."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


MEANINGS = (
    (
        r"No space left on device|Not enough free disk space",
        mark("no space left on the disk"),
        mark("free disk space; then {again}"),
    ),
    (
        r"[Ee]rror:? '?40[13]\b|\b40[13] Client Error|GatedRepo"
        r"|\[40[13]\] |must be authenticated|Access to model .{0,80} is restricted",
        mark("the model hub requires authentication"),
        mark("accept the model's licence on its page, then set HF_TOKEN or MODELSCOPE_API_TOKEN"),
    ),
    (
        r"[Ee]rror:? '?404\b|\b404 Client Error|RepositoryNotFound|\[404\] ",
        mark("repository not found on the model hub"),
        mark("check the repository name, or use another hub"),
    ),
    (r"RevisionNotFound", mark("revision not found in the repository"), mark("check the revision in the recipe")),
    (
        r"getaddrinfo|Name or service not known|name resolution|Connection refused|Network is unreachable|ConnectError"
        r"|ConnectionError|LocalEntryNotFound|Max retries|[Tt]imed out|ReadTimeout|IncompleteRead|peer closed",
        mark("the model hub did not respond, or the connection was interrupted"),
        mark("check the network, or set {variable} to a mirror; {again}"),
    ),
    (
        r"[Cc]onsistency check failed|checksum|integrity|[Hh]ash mismatch",
        mark("a downloaded file is corrupt"),
        "{again}",
    ),
)


def parse_downloaded_folder(fetch: HubDownload, done: CommandResult) -> str:
    """Return the folder of the files as a path on the target.  StepError if the download failed."""
    lines = [line for line in done.out.splitlines() if line.strip()]
    if done.status == 0 and lines:
        return lines[-1].strip()
    what = _("{repository} from {hub}", repository=fetch.repository, hub=fetch.hub)
    if done.status == ABSENT:
        name = {"huggingface": "huggingface_hub"}.get(fetch.hub, fetch.hub)
        raise StepError(
            _("{what}: Python library {name} is not installed", what=what, name=name),
            _("add {name} to the recipe's packages", name=name),
        )
    if done.hung:
        raise StepError(_("{what}: the download timed out and was stopped", what=what), AGAIN)
    said = f"{done.out}\n{done.err}"
    variable = _name_variables(HUB_SERVERS[fetch.hub])
    for pattern, sentence, step in MEANINGS:
        if re.search(pattern, said):
            raise StepError(
                _("{what}: {sentence}", what=what, sentence=fill(sentence)), fill(step, variable=variable, again=AGAIN)
            )
    last = [line for line in said.splitlines() if line.strip()][-1:]
    reason = redact_text(last[0][:300]) if last else _("no output")
    raise StepError(_("{what}: download failed: {reason}", what=what, reason=reason), AGAIN)


def _name_variables(server: HubServer) -> Message:
    """The variable that sets another server, and that of older clients."""
    if not server.host_variable:
        return verbatim(server.variable)
    return _(
        "{variable} (older releases: {host_variable}, without https://)",
        variable=server.variable,
        host_variable=server.host_variable,
    )


def select_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's variables for the download: tokens, servers and proxies.

    Tokens are passed in the environment only: arguments are visible in the process list.
    """
    names = set(HUB_VARIABLES)
    proxies = {name for name in environment if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")}
    return {name: environment[name] for name in sorted(names | proxies) if name in environment}
