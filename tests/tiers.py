"""The tiers of the tests: each test is in exactly one, and without a mark in `fast`, or in `real` by what it uses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest
from _pytest.mark import ParameterSet

TIERS = {
    "fast": "needs no network, no root and no other program than Python; what has no mark and no fixture of `real`",
    "real": "uses a real engine, registry, Slurm, sshd, browser, package index, paddle or torch",
    "slow": "takes seconds, and needs nothing of `real`",
    "extended": "the other cases of expensive tests that `real` and `slow` have one case of; not in the gate",
}
# A test that uses one of these, however indirectly, is `real` without saying so.
REAL_FIXTURES = frozenset({"engine", "registry", "nodes", "paddle_home", "torch_environment"})
# Set by the gate: the tiers, separated by commas, of which at least one test has to pass.
REQUIRED = "ENVCHECK_TIERS_REQUIRED"

_running = ""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks; choose the tier where no `-m` does: `fast`, or what the named files have."""
    for tier, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{tier}: {meaning}")
    required = [tier.strip() for tier in os.environ.get(REQUIRED, "").split(",") if tier.strip()]
    if required and not hasattr(config, "workerinput"):  # the process that starts the others hears of all tests
        config.pluginmanager.register(PassedTiers(required), "passed-tiers")
    if not config.option.markexpr:
        config.option.markexpr = default_tiers(config.args)


def default_tiers(arguments: Sequence[str]) -> str:
    """Return the expression for `-m` where none is given: a named test is wanted, whatever its tier."""
    if any("::" in argument for argument in arguments):
        return ""
    if any(argument.endswith(".py") for argument in arguments):
        return "not extended"
    return "fast"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put each test into one tier, before `-m` looks: a mark of a test overrides that of its module."""
    tiers = [(item, tier_of(item)) for item in items]
    for node in {node for item in items for node in item.listchain()}:
        node.own_markers[:] = [mark for mark in node.own_markers if mark.name not in TIERS]
    for item, tier in tiers:
        item.add_marker(tier)
        item.user_properties.append(("tier", tier))


def tier_of(item: pytest.Item) -> str:
    """Return the tier of the nearest mark, else `fast`; what uses a fixture of `real` is that, or `extended`."""
    nodes = reversed(item.listchain())
    marked = (mark.name for node in nodes for mark in reversed(node.own_markers) if mark.name in TIERS)
    tier = next(marked, "fast")  # the marks of a parameter stand last
    used = set(getattr(item, "fixturenames", ())) - set(getattr(getattr(item, "callspec", None), "params", ()))
    return "real" if tier != "extended" and REAL_FIXTURES & used else tier


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember which tier runs."""
    global _running
    _running = dict(item.user_properties).get("tier", "")
    yield
    _running = ""


def thin_out(keep: int, cases: Iterable[object]) -> list[object]:
    """Return the cases as parameters: `keep` of them, from the first on evenly spread; the others are `extended`."""
    given = list(cases)
    step = -(-len(given) // keep)
    return [case if not number % step else _mark_extended(case) for number, case in enumerate(given)]


def _mark_extended(case: object) -> object:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, id=case.id, marks=pytest.mark.extended)
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.extended)


def not_in_fast(what: str) -> None:
    """Fail where a test of the fast tier is about to use `what`."""
    if _running == "fast":
        pytest.fail(f"{what} is not for the tier `fast`: mark this test `real` (CONTRIBUTING.md, Tests)", pytrace=False)


class PassedTiers:
    """Fails a run in which no test of a tier that REQUIRED names has passed."""

    def __init__(self, required: Sequence[str]) -> None:
        self.required = required
        self.passed: Counter[str] = Counter()

    def missing(self) -> list[str]:
        """Return the required tiers of which nothing has passed."""
        return [tier for tier in self.required if not self.passed[tier]]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passes."""
        if report.when == "call" and report.passed:
            self.passed.update(value for name, value in report.user_properties if name == "tier")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run that is green, or found nothing, into a failed one."""
        if self.missing() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show how many passed of each tier, and which have none."""
        terminalreporter.line(", ".join(f"{tier}: {self.passed[tier]} passed" for tier in self.required))
        for tier in self.missing():
            terminalreporter.line(f"ERROR: {REQUIRED}: no test of the tier {tier} has passed", red=True)
