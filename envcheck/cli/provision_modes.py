"""Which options of provision go together: one table of what it can be asked to do, and what each of these listens to.

An option that would go unheard is refused: whoever gave it meant something by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envcheck.core.errors import UsageError

RECIPE = frozenset({"--device", "--model", "--method", "--framework", "--recipe", "--recipes", "--variant"})
ASKING = frozenset({"--dry-run", "--yes", "--json"})
SHOWING = frozenset({"--verbose"})
DRIVER = frozenset({"--driver", "--accept-licence", "--sha256", "--allow-downgrade"})
BOX = frozenset({"--registry", "--recreate", "--as-published"})
WEIGHTS = frozenset({"--weights", "--fetch-weights"})
LOCK = frozenset({"--lock", "--locked"})
NODE = frozenset({"--into", "--node-role"})
HOSTS = frozenset({"--hosts", "--hostfile", "--exclude", "--fanout", "--deadline", "--forget", "--resume"})
BUNDLED = frozenset({"--bundle", "--weights", "--lock", "--recreate", "--as-published"})

# The first of these that was given says what is done; where none was, it is a plan, shown and performed.
MODES: Mapping[str, frozenset[str]] = {
    "--undo": RECIPE | ASKING | HOSTS | {"--undo", "--into", "--bundle"},
    "--driver": RECIPE | ASKING | DRIVER | {"--locked"},
    "--as-script": RECIPE | BOX | WEIGHTS | NODE | {"--as-script", "--dry-run", "--yes"},
    "--bundle": RECIPE
    | ASKING
    | NODE
    | {"--bundle", "--weights", "--lock", "--recreate", "--as-published"}
    | SHOWING
    | HOSTS,
    "": RECIPE | ASKING | SHOWING | BOX | WEIGHTS | LOCK | NODE | HOSTS,
}
EITHER = (
    ("--weights", "--fetch-weights"),
    ("--into", "--registry"),  # packages go into a virtual environment of this host: there is no container
    ("--into", "--recreate"),
    ("--into", "--as-published"),
    ("--bundle", "--method"),  # a bundle holds one recipe, and says which
    ("--bundle", "--framework"),
    ("--bundle", "--variant"),
    ("--bundle", "--recipes"),
    ("--hosts", "--lock"),  # each host would write its own
    ("--hostfile", "--lock"),
)
NEXT = {
    ("--driver", "--undo"): "the vendor's own program takes a driver back: --driver FILE.run --dry-run names it",
    ("--fetch-weights", "--bundle"): "a bundle is for a machine without a network: --weights DIR",
    ("--locked", "--bundle"): "a bundle brings its own lock",
    ("--lock", "--hosts"): "provision one machine with --lock FILE, then the others with --locked FILE",
    ("--weights", "--undo"): "weights are yours: rm -r",
    ("--fetch-weights", "--undo"): "weights are yours: rm -r",
}


def check(given: Iterable[str]) -> None:
    """UsageError for options that contradict each other."""
    said = sorted(given)
    mode = next(mode for mode in MODES if not mode or mode in said)
    for option in said:
        if option not in MODES[mode] and mode:
            raise _against(option, mode)
        if option not in MODES[mode]:
            raise UsageError(f"{option} is for --driver", "add --driver FILE.run")
    for one, other in EITHER:
        if one in said and other in said:
            raise _against(other, one)
    of_hosts = HOSTS.intersection(said)
    if of_hosts - {"--hosts", "--hostfile", "--exclude"} and not {"--hosts", "--hostfile"} & set(said):
        lonely = min(of_hosts - {"--exclude"})
        raise UsageError(f"{lonely} is for --hosts", "name the machines: --hosts node[01-08]")


def heard(given: Iterable[str], recipe: str, image: bool) -> None:
    """UsageError for what is said of a container that the recipe does not have."""
    unheard = sorted(BOX.intersection(given))
    if unheard and not image:
        raise UsageError(f"{unheard[0]} is for a container, and {recipe} has none", "leave it out")


def _against(option: str, other: str) -> UsageError:
    return UsageError(f"{option} does not go with {other}", NEXT.get((option, other), "give one of them"))
