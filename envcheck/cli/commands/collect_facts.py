"""What doctor judges: the facts of this machine or of a recording, and what the named job wants of it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

QUICK_S = 0.3  # a machine's tools answer in this time, or wait for their driver and leave a processor idle

if TYPE_CHECKING:
    from envcheck.core.facts import Facts, Wanted
    from envcheck.settings.site_settings import Settings
    from installers.recipes.catalogue import Offer


def gathered(asked: dict[str, Any], site: Settings) -> Facts:
    """What the machine or the recording says, and what the named job wants of it."""
    from envcheck.collect import facts, machine
    from envcheck.report import screen

    early = None if asked["device"] == "auto" else _offer(asked, asked["device"])
    if asked["replay"]:
        found = replayed(asked["replay"], asked["device"])
    else:
        words = "" if asked["watch"] else "asking the machine ..."
        with screen.hint(words), _meanwhile():
            found = facts.gather(machine.here(), asked["device"], more=site.questions)
    return completed(asked, site, found, early)


@contextlib.contextmanager
def _meanwhile() -> Iterator[None]:
    """While slow tools are at work, getting ready to judge; quick ones would wait for it."""
    import threading

    getting_ready = threading.Timer(QUICK_S, _ready)
    getting_ready.daemon = True
    getting_ready.start()
    try:
        yield
    finally:
        getting_ready.cancel()


def _ready() -> None:
    """Reads the checks, and the versions that belong together; what is wrong with them is told where they are used."""
    with contextlib.suppress(Exception):
        import envcheck.checks.custom  # noqa: F401  brings all checks
        from envcheck.compat import loading

        loading.table()


def completed(asked: dict[str, Any], site: Settings, found: Facts, early: Offer | None = None) -> Facts:
    """With what the named job wants of that machine, and the site's thresholds."""
    from dataclasses import replace

    offer = early or offer_here(asked, found)
    return replace(found, wanted=_wanted(offer, found) if offer else None, thresholds=site.thresholds)


def offer_here(asked: dict[str, Any], found: Facts) -> Offer | None:
    """As `_offer`, where no device was named: that of the one job that fits, else the machine's own."""
    from envcheck.core.errors import UsageError

    try:
        return _offer(asked, "auto")
    except UsageError:
        return _offer(asked, next((v.name for v in found.vendors), "cpu"))


def _wanted(offer: Offer, found: Facts) -> Wanted:
    """What the job asks of a machine, and whether the planner fits it on this one's cards."""
    from dataclasses import replace

    from installers.recipes import recipe
    from launch.planner import fit, recipe_job

    return replace(recipe.wanted(*offer), fit=fit.fit(*offer, found), degrees=recipe_job.judged(*offer, found))


def _offer(asked: dict[str, Any], device: str) -> Offer | None:
    """The named job and its recipe; None when none is named."""
    if not (asked["model"] or asked["method"] or asked["framework"]):
        return None
    from installers.recipes import catalogue

    return catalogue.select(
        _recipes(asked["recipes_folder"]), asked["model"], asked["method"], device, asked["framework"]
    )


@functools.lru_cache(maxsize=1)
def _recipes(folder: str | None) -> Any:
    """Read once: they are asked for each machine of a fleet."""
    from pathlib import Path

    from installers.recipes import catalogue

    return catalogue.load_all(Path(folder) if folder else None)


def replayed(path: str, device: str) -> Facts:
    from pathlib import Path

    from envcheck.collect import facts, snapshot
    from envcheck.core.errors import UsageError

    answers, recorded = snapshot.load(Path(path))
    if device not in ("auto", recorded) and recorded != "auto":
        raise UsageError(f"the snapshot was taken with --device {recorded}", f"leave --device {device} out")
    return facts.read(answers, recorded if device == "auto" else device)
