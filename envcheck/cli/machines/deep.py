"""`envcheck doctor --deep`: confirmation, progress, and the Python in which the tests run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from envcheck.core import language
from envcheck.core.errors import SUCCESS, UNDETERMINED, EnvcheckError, StepError, UndeterminedError, UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.language.width import display_width
from envcheck.core.messages import Message, _
from envcheck.core.model import Finding, diagnose, manual
from envcheck.deep import active_tests, card_selection, check_table
from envcheck.deep.active_tests import DeepRequest
from envcheck.deep.interpreter import Sizes
from envcheck.report import safe
from envcheck.settings.thresholds import threshold_value

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import DeepOptions

BUDGET_VARIABLE = "ENVCHECK_DEEP_SECONDS"  # runs for each measured value


def refuse_conflicts(request: DeepOptions) -> None:
    """Raise UsageError for conflicting options, before facts are collected."""
    if request.dry_run:
        if request.as_json or request.format or request.output:
            raise UsageError(_("--dry-run shows the tests of --deep and writes no report"), _("use only one of them"))
    elif not request.yes and not sys.stdin.isatty():
        raise UsageError(
            _("--deep interrupts the devices, and cannot ask for confirmation without a terminal"),
            _("add --yes to start the tests"),
        )


def run_tests(facts: Facts, request: DeepOptions, names: frozenset[str], recipe: Any) -> check_table.DeepFindings:
    """Return findings by vendor and name; of the CPU if there are no accelerators."""
    wish = _build_request(facts, names)
    if not names:
        return {}
    told = {(v.name if v else "cpu"): _test_vendor(facts, v, request, wish, recipe) for v in facts.vendors or (None,)}
    return {vendor: dict(findings) for vendor, findings in told.items()}


def print_preview(facts: Facts, request: DeepOptions, names: frozenset[str], recipe: Any) -> int:
    """Print what --deep would interrupt, and why tests are skipped; return 3 if some or all are."""
    told = [each for some in run_tests(facts, request, names, recipe).values() for each in some.items()]
    why = [replace(f, name=name) for name, some in told for f in some if f.status.is_problem]
    for finding in localize_findings(why):
        words = (finding.remedy.words, *finding.remedy.commands) if finding.remedy else ()
        click.echo(
            "\n  ".join(
                map(safe, (language.translate(_("{name}: {seen}", name=finding.name, seen=finding.seen)), *words))
            )
        )
    if not names:
        click.echo(language.translate(_("No check applies to this machine.")))
    return UNDETERMINED if why or not names else SUCCESS


def _build_request(facts: Facts, names: frozenset[str]) -> DeepRequest:
    from launch.catalogue import links

    own = card_selection.read_setting(BUDGET_VARIABLE, 3600.0)
    sizes = replace(Sizes(), budget_s=own) if own else Sizes()
    outlier = {test: threshold_value(facts, f"deep.{test}.warn_percent") / 100 for test in ("matmul", "copy")}
    return DeepRequest(sizes, names, outlier, links.load_link_kinds())


def _test_vendor(
    facts: Facts, v: VendorFacts | None, request: DeepOptions, wish: DeepRequest, recipe: Any
) -> dict[str, list[Finding]]:
    from envcheck.cli import find_python
    from envcheck.core.signals import handle_signals, raise_interrupt

    chosen = card_selection.select_cards(facts, v)
    if chosen.obstacle:
        return active_tests.report_untested(
            chosen.obstacle, manual(_("Check that the devices are idle; envcheck doctor shows the reason."))
        )
    if not chosen.free_cards:
        return active_tests.report_busy_cards(chosen)
    if recipe is not None and recipe.device != chosen.vendor:
        recipe = None
    where = find_python.PythonRequest(
        chosen.vendor, recipe, request.recipes, bool(facts.host and facts.host.in_container)
    )
    try:
        with handle_signals(raise_interrupt), find_python.open_interpreter(where) as interpreter:
            if interpreter.shared and len(chosen.free_cards) < len(chosen.cards):
                return active_tests.report_busy_cards(chosen)
            if request.dry_run:
                _print_lines(active_tests.describe_effects(chosen, interpreter, wish), err=False)
                return {}
            if not _ask_consent(active_tests.describe_effects(chosen, interpreter, wish), request.yes):
                return active_tests.report_untested(
                    _("skipped: not confirmed"),
                    diagnose(_("Run it again when the devices may be interrupted."), active_tests.DEEP_COMMAND),
                )
            return active_tests.examine_cards(chosen, interpreter, wish, _make_progress_printer())
    except (StepError, UndeterminedError) as err:
        return active_tests.report_untested(err.message, diagnose(_format_advice(err), *_list_commands(err)))


def _ask_consent(told: Iterable[Message], yes: bool) -> bool:
    _print_lines(told, err=True)
    return yes or click.confirm(language.translate(_("Start the tests?")), err=True)


def _print_lines(told: Iterable[Message], err: bool) -> None:
    for line in told:
        click.echo(language.translate(line), err=err)


def _make_progress_printer() -> Callable[[str], None]:
    """Return a function that prints a line for each test; on a terminal the next line replaces it."""
    terminal, lock, width = sys.stderr.isatty(), threading.Lock(), 0

    def say(text: str) -> None:
        nonlocal width
        shown = language.translate(text)
        with lock:
            if terminal:
                click.echo(f"\r{shown}{' ' * (width - display_width(shown))}", err=True, nl=False)
                width = display_width(shown)
            else:
                click.echo(f"  {shown}", err=True)

    return say


def _format_advice(err: EnvcheckError) -> Message:
    if err.next_step.startswith("envcheck "):
        return _("Install the software that the tests need, then run the command again:")
    return err.next_step or _("Then run the command again.")


def _list_commands(err: EnvcheckError) -> tuple[str, ...]:
    return (err.next_step,) if err.next_step.startswith("envcheck ") else ()
