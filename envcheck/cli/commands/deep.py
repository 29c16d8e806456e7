"""What `envcheck doctor --deep` does around the tests: who is asked, what is told, and in which Python they run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from envcheck.core import language
from envcheck.core.errors import FIT, UNTOLD, EnvcheckError, StepError, UntoldError, UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.language.findings import localised
from envcheck.core.model import Finding
from envcheck.deep import cards, session, table
from envcheck.deep.interpreter import Sizes
from envcheck.deep.session import Wish
from envcheck.report import safe
from envcheck.settings.thresholds import limit

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import DeepOptions

SECONDS = "ENVCHECK_DEEP_SECONDS"  # for each figure


def refuse(request: DeepOptions) -> None:
    """What does not go with it, said before the machine is asked."""
    if request.dry_run:
        if request.as_json or request.format or request.output:
            raise UsageError("--dry-run shows what --deep would do, and makes no report", "leave one of them out")
    elif not request.yes and not sys.stdin.isatty():
        raise UsageError("--deep disturbs the cards, and there is nobody to ask", "add --yes to start the tests")


def found(facts: Facts, request: DeepOptions, names: frozenset[str], recipe: Any) -> table.Found:
    """Findings by vendor and name; of the processor where no vendor's cards are here."""
    wish = _wish(facts, names)
    if not names:
        return {}
    told = {(v.name if v else "cpu"): _of(facts, v, request, wish, recipe) for v in facts.vendors or (None,)}
    return {vendor: dict(findings) for vendor, findings in told.items()}


def shown(facts: Facts, request: DeepOptions, names: frozenset[str], recipe: Any) -> int:
    """--dry-run: what would be disturbed is said, and why some is not tested: 3 then, or where nothing would be."""
    told = [each for some in found(facts, request, names, recipe).values() for each in some.items()]
    why = [replace(f, name=name) for name, some in told for f in some if f.status.is_problem]
    for finding in localised(why):
        words = (finding.remedy.words, *finding.remedy.commands) if finding.remedy else ()
        click.echo("\n  ".join(map(safe, (f"{finding.name}{language.say(': ')}{finding.seen}", *words))))
    if not names:
        click.echo(language.say("No check applies here."))
    return UNTOLD if why or not names else FIT


def _wish(facts: Facts, names: frozenset[str]) -> Wish:
    from launch.catalogue import links

    own = cards.setting(SECONDS, 3600.0)
    sizes = replace(Sizes(), budget_s=own) if own else Sizes()
    outlier = {test: limit(facts, f"deep.{test}.warn_percent") / 100 for test in ("matmul", "copy")}
    return Wish(sizes, names, outlier, links.kinds())


def _of(facts: Facts, v: VendorFacts | None, request: DeepOptions, wish: Wish, recipe: Any) -> dict[str, list[Finding]]:
    from envcheck.cli.commands import find_python
    from envcheck.core.signals import heard_by, interrupt

    chosen = cards.choose(facts, v)
    if chosen.obstacle:
        return session.untold(chosen.obstacle, "Look by hand whether they are idle; envcheck doctor says why.")
    if not chosen.free:
        return session.busy(chosen)
    if recipe is not None and recipe.device != chosen.vendor:
        recipe = None
    where = find_python.Asked(chosen.vendor, recipe, request.recipes, bool(facts.host and facts.host.in_container))
    try:
        with heard_by(interrupt), find_python.opened(where) as interpreter:
            if interpreter.shared and len(chosen.free) < len(chosen.cards):
                return session.busy(chosen)
            if request.dry_run:
                _say(session.beforehand(chosen, interpreter, wish), err=False)
                return {}
            if not _agreed(session.beforehand(chosen, interpreter, wish), request.yes):
                return session.untold(
                    "not run: you said no", "Ask again when the cards may be disturbed.", session.AGAIN
                )
            return session.examine(chosen, interpreter, wish, _telling())
    except (StepError, UntoldError) as err:
        return session.untold(err.message, _sentence(err), *_command(err))


def _agreed(told: str, yes: bool) -> bool:
    _say(told, err=True)
    return yes or click.confirm(language.say("Start them?"), err=True)


def _say(told: str, err: bool) -> None:
    click.echo("".join(f"{language.say(line)}\n" for line in told.splitlines()), err=err, nl=False)


def _telling() -> Callable[[str], None]:
    """A line for each test; on a terminal the next one takes its place."""
    terminal, lock, width = sys.stderr.isatty(), threading.Lock(), 0

    def say(text: str) -> None:
        nonlocal width
        with lock:
            if terminal:
                click.echo(f"\r{text:<{width}}", err=True, nl=False)
                width = len(text)
            else:
                click.echo(f"  {text}", err=True)

    return say


def _sentence(err: EnvcheckError) -> str:
    if err.next_step.startswith("envcheck "):
        return "Install what the tests want, then ask again:"
    return err.next_step or "Then ask again."


def _command(err: EnvcheckError) -> tuple[str, ...]:
    return (err.next_step,) if err.next_step.startswith("envcheck ") else ()
