"""The tiers of the tests: each test is in exactly one, and without a mark in `fast`, or in `real` by what it uses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

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
    """Return the tier of the nearest mark; without one, `real` or `fast` by the fixtures."""
    for node in reversed(item.listchain()):
        for mark in reversed(node.own_markers):  # those of a parameter stand last
            if mark.name in TIERS:
                return mark.name
    used = set(getattr(item, "fixturenames", ())) - set(getattr(getattr(item, "callspec", None), "params", ()))
    return "real" if REAL_FIXTURES & used else "fast"


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember which tier runs."""
    global _running
    _running = dict(item.user_properties).get("tier", "")
    yield
    _running = ""


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
