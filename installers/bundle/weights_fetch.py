"""Fetching a model's weights: the command for it, what its failures mean, and whether there is room.

The command runs where the recipe's packages are, in the container or the environment.  Repeated, it fetches what is
not complete: file by file (a shard has 5 GB or less), and with huggingface_hub 0.x, modelscope and Xet from the byte
where it was cut off (seen: huggingface_hub 2.4 begins a cut-off file of a plain http server anew).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.core.process import CommandResult
from envcheck.core.secrets import redact
from envcheck.core.units import GIB, gib
from installers.programs.fetch_weights import ABSENT
from installers.recipes.recipe import Mount, Recipe

PROGRAM = Path(__file__).parent.parent / "programs" / "fetch_weights.py"
DEADLINE_S = 7 * 24 * 3600.0  # 600 GB at 1 MB/s; who fetches so much may want to look at it in a week
SPARE_BYTES = 1 << 30
SHOWN_BY = {"huggingface": "HF_ENDPOINT", "modelscope": "MODELSCOPE_DOMAIN"}  # variables that choose another server
AGAIN = "repeat the same command: what is complete is not fetched again"


@dataclass(frozen=True)
class Fetch:
    """One hub that has the model; `folder` as the command sees it, "" for the hub's own cache."""

    hub: str
    repository: str
    folder: str
    revision: str = ""

    def argv(self, python: str) -> tuple[str, ...]:
        """For the recipe's Python: the program comes along as text, as a container does not see our files."""
        program = PROGRAM.read_text("utf-8")
        return (python, "-c", program, self.hub, self.repository, self.folder, *filter(None, (self.revision,)))


def fetches(recipe: Recipe) -> tuple[Fetch, ...]:
    """The hubs to try, in the recipe's order; none where it names none."""
    weights = recipe.weights
    if weights is None:
        return ()
    workdir = recipe.workdir or (recipe.container.workdir if recipe.container else "")
    folder = posixpath.join(workdir, weights.folder) if weights.folder else ""
    said = {"huggingface": weights.huggingface, "modelscope": weights.modelscope}
    order = sorted(said, key=lambda hub: hub != weights.first)
    return tuple(Fetch(hub, said[hub], folder, weights.revision) for hub in order if said[hub])


def on_host(path: str, mounts: Iterable[Mount], here: Path) -> Path | None:
    """Where a container's path stands on this host; None where it would vanish with the container.

    `here` is the folder in which relative mount sources stand.
    """
    wanted = posixpath.normpath(path)
    fitting = [m for m in mounts if wanted == m.target or wanted.startswith(m.target.rstrip("/") + "/")]
    if not fitting:
        return None
    mount = max(fitting, key=lambda m: len(m.target))
    return here / mount.source / posixpath.relpath(wanted, mount.target)


def lacking_room(size_gib: float | None, there_bytes: int, free_bytes: int | None) -> str | None:
    """Why the weights will not fit on the disk, in words; None where they do, or nobody can say."""
    if size_gib is None or free_bytes is None:
        return None
    needed = max(0, int(size_gib * GIB) - there_bytes)
    if not needed or needed + SPARE_BYTES <= free_bytes:
        return None
    return f"{gib(free_bytes)} are free, {gib(needed + SPARE_BYTES)} are needed for what is not there yet"


def present_bytes(folder: Path) -> int:
    """Of a download that was begun, what is there: complete files and the libraries' unfinished ones."""
    total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total


MEANINGS = (
    (r"No space left on device|Not enough free disk space", "the disk is full", f"make room; then {AGAIN}"),
    (
        r"[Ee]rror:? '?40[13]\b|\b40[13] Client Error|GatedRepo"
        r"|must be authenticated|Access to model .{0,80} is restricted",
        "the hub wants to know who asks",
        "accept the model's licence on its page, then set HF_TOKEN or MODELSCOPE_API_TOKEN",
    ),
    (
        r"[Ee]rror:? '?404\b|\b404 Client Error|RepositoryNotFound",
        "the hub has no such repository",
        "check the name; another hub may have it",
    ),
    (r"RevisionNotFound", "the repository has no such revision", "check the recipe's revision"),
    (
        r"getaddrinfo|Name or service not known|name resolution|Connection refused|Network is unreachable|ConnectError"
        r"|ConnectionError|LocalEntryNotFound|Max retries|[Tt]imed out|ReadTimeout|IncompleteRead|peer closed",
        "the hub does not answer, or stopped in the middle",
        f"is there a network, or a mirror to set in {{variable}}?  {AGAIN}",
    ),
    (r"[Cc]onsistency check failed|checksum|integrity", "a file came out damaged", AGAIN),
)


def fetched(fetch: Fetch, done: CommandResult) -> str:
    """The folder where the files are, as the command sees it; StepError in words where it failed."""
    lines = [line for line in done.out.splitlines() if line.strip()]
    if done.status == 0 and lines:
        return lines[-1].strip()
    what = f"{fetch.repository} from {fetch.hub}"
    if done.status == ABSENT:
        name = {"huggingface": "huggingface_hub"}.get(fetch.hub, fetch.hub)
        raise StepError(f"{what}: the library {name} is not installed there", f"add {name} to the recipe's packages")
    if done.hung:
        raise StepError(f"{what}: the download did not end in time and was stopped", AGAIN)
    said = f"{done.out}\n{done.err}"
    variable = SHOWN_BY.get(fetch.hub, "HF_ENDPOINT")
    for pattern, sentence, step in MEANINGS:
        if re.search(pattern, said):
            raise StepError(f"{what}: {sentence}", step.replace("{variable}", variable))
    last = [line for line in said.splitlines() if line.strip()][-1:] or ["it said nothing"]
    raise StepError(redact(f"{what}: the download failed: {last[0][:300]}"), AGAIN)


def passed(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the caller's environment the download needs: who asks, where, and through which proxy.

    Tokens travel in the environment alone: an argument would stand in the process list.
    """
    names = {"HF_TOKEN", "MODELSCOPE_API_TOKEN", *SHOWN_BY.values()}
    proxies = {name for name in environment if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")}
    return {name: environment[name] for name in sorted(names | proxies) if name in environment}
