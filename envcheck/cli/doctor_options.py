"""What `envcheck doctor` can be asked for: each of its requests, and the options that it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from envcheck.cli import options
from envcheck.cli.requests import Request, flag, option

FORMATS = ("table", "json", "html", "junit", "sarif", "prometheus", "markdown")  # as in envcheck.report.formats


@dataclass(frozen=True, kw_only=True)
class ConfigOption(Request):
    config: str | None = option(
        "--config", type=click.Path(), help="Waivers, thresholds and checks of your own; else envcheck.toml."
    )


@dataclass(frozen=True, kw_only=True)
class FormatOption(Request):
    format: str | None = option(
        "--format", type=click.Choice(FORMATS), help="How the report is written; else by the ending of -o."
    )


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.JsonOption, FormatOption, ConfigOption):
    """Lists of what doctor knows: nothing is asked of a machine."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ("show_thresholds", "list_checks")

    show_thresholds: bool = flag(
        "--show-thresholds", help="Print the figures that decide, with their sources, and stop."
    )
    list_checks: bool = flag("--list-checks", help="Name all checks, and stop.", excludes=("show_thresholds",))


@dataclass(frozen=True, kw_only=True)
class ExamineOptions(ConfigOption, options.VariantOptions, options.JobOptions):
    """Which machine and job are judged, and by which checks."""

    only: tuple[str, ...] = options.checks_option("--only", help="Only this check or area; may be given again.")
    skip: tuple[str, ...] = options.checks_option("--skip", help="Not this check or area; may be given again.")

    @property
    def is_job_named(self) -> bool:
        return any((self.model, self.method, self.framework, self.variant, self.node_role))


@dataclass(frozen=True, kw_only=True)
class UndoFixOptions(options.AskingOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("undo",)

    undo: bool = flag("--undo", help="Take back what --fix did.")


@dataclass(frozen=True, kw_only=True)
class FixOptions(options.AskingOptions, ExamineOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("fix",)

    fix: bool = flag("--fix", help="Apply the remedies that are safe: shown first, proved after, journaled.")


@dataclass(frozen=True, kw_only=True)
class StrictOptions(ExamineOptions):
    strict: bool = flag("--strict", help="Warnings count: exit code 3.")


@dataclass(frozen=True, kw_only=True)
class WatchOptions(StrictOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("watch",)

    watch: float = option(
        "--watch",
        is_flag=False,
        flag_value=5.0,
        type=click.FloatRange(1, 3600),
        metavar="[SECONDS]",
        help="Look again every 5 s, or SECONDS, until Ctrl-C; the exit code is the last verdict's.",
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(options.JsonOption, FormatOption, StrictOptions):
    """One look at one machine, and a report."""

    output: str | None = option("--output", "-o", type=click.Path(), metavar="FILE", help="Write the report to FILE.")


@dataclass(frozen=True, kw_only=True)
class RankTableOption(Request):
    rank_table: str | None = option(
        "--rank-table", type=click.Path(), metavar="FILE",
        help="With --hosts: Ascend's table of ranks, written, or checked where it is there.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HostsReportOptions(options.FleetOptions, RankTableOption, ReportOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = options.OVER_SSH

    between: bool = flag(
        "--between", help="With --hosts: try them against each other: names, clocks, ports, speed, RDMA."
    )
    ports: str | None = option(
        "--ports", metavar="LIST", help="With --between: ports that must be open, 29500,60000-60015.",
        needs=("between",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DeepOptions(options.AskingOptions, ReportOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("deep",)

    deep: bool = flag("--deep", help="Test the cards themselves, too: says first what that disturbs, and asks.")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(RankTableOption, ReportOptions):
    """A recording, or a folder with those of several machines."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ("replay",)

    replay: Path = option("--replay", type=click.Path(path_type=Path), help="Judge a snapshot instead of this machine.")


KINDS = (
    ListOptions, UndoFixOptions, FixOptions, WatchOptions, HostsReportOptions, DeepOptions, ReplayOptions, ReportOptions
)  # fmt: skip
