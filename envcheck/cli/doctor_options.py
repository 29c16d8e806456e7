"""The options of `envcheck doctor`, one class per kind of request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import click

from envcheck.cli import options, shell_completion
from envcheck.cli.job_argument import job_argument, read_own_job
from envcheck.cli.number_types import Seconds
from envcheck.cli.option_groups import OptionGroup
from envcheck.cli.requests import Request, flag, option
from envcheck.core.lint.own_job import OwnJob

FORMATS = ("table", "json", "html", "junit", "sarif", "prometheus", "markdown")  # equal to envcheck.report.formats


@dataclass(frozen=True, kw_only=True)
class ConfigOption(Request):
    config: str | None = options.config_option(OptionGroup.CHECKS)


@dataclass(frozen=True, kw_only=True)
class FormatOption(Request):
    format: str | None = option(
        "--format", group=OptionGroup.OUTPUT, is_common=True, metavar="FORMAT",
        type=click.Choice(FORMATS, case_sensitive=False),
        help="Format: table, json, html, junit, sarif, prometheus, markdown (default: from --output).",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.JsonOption, FormatOption, ConfigOption):
    """Lists of checks and thresholds: no facts are collected."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ("show_thresholds", "list_checks")

    show_thresholds: bool = flag(
        "--show-thresholds", group=OptionGroup.CHECKS, help="List all thresholds with their sources and exit."
    )
    list_checks: bool = flag(
        "--list-checks", group=OptionGroup.CHECKS, is_common=True, help="List all checks and exit.",
        excludes=("show_thresholds",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ExamineOptions(ConfigOption, options.VariantOptions, options.RecipeOption, options.JobOptions):
    """Which machine and job are checked, and with which checks."""

    only: tuple[str, ...] = option(
        "--only", group=OptionGroup.CHECKS, is_common=True, multiple=True, metavar="NAME",
        shell_complete=shell_completion.complete_from(shell_completion.list_checks),
        help="Run only this check or area (repeatable).",
    )  # fmt: skip
    skip: tuple[str, ...] = options.skip_option()
    timeout_s: float = option(
        "--timeout", group=OptionGroup.MACHINE, type=Seconds(1, 86400), default=120, show_default=True,
        metavar="SECONDS", help="Time limit for all checks.",
    )  # fmt: skip
    words: tuple[str, ...] = job_argument()

    @property
    def is_job_named(self) -> bool:
        return any((self.recipe, self.model, self.method, self.framework, self.variant, self.node_role, self.words))

    @cached_property
    def own_job(self) -> OwnJob | None:
        """The user's own job; None without one."""
        return read_own_job(self.words, self.given)


@dataclass(frozen=True, kw_only=True)
class UndoFixOptions(options.ConfirmOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("undo",)

    undo: bool = options.undo_flag()


@dataclass(frozen=True, kw_only=True)
class FixOptions(options.ConfirmOptions, ExamineOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("fix",)

    fix: bool = flag("--fix", group=OptionGroup.MACHINE, is_common=True, help="Show the safe fixes, then apply them.")


@dataclass(frozen=True, kw_only=True)
class StrictOptions(ExamineOptions):
    strict: bool = options.strict_flag()


@dataclass(frozen=True, kw_only=True)
class WatchOptions(StrictOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("watch",)

    watch: float = option(
        "--watch",
        group=OptionGroup.OUTPUT,
        is_common=True,
        is_flag=False,
        flag_value=5.0,
        type=Seconds(1, 3600),
        metavar="[SECONDS]",
        help="Repeat every 5 seconds, or SECONDS, until Ctrl-C.",
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(options.JsonOption, FormatOption, StrictOptions):
    """Check one machine once, and report."""

    output: Path | None = options.output_option()
    verbose: bool = flag("--verbose", "-v", group=OptionGroup.OUTPUT, help="Show the complete output.")


@dataclass(frozen=True, kw_only=True)
class RankTableOption(Request):
    rank_table: str | None = option(
        "--rank-table", group=OptionGroup.HOSTS, type=click.Path(), metavar="FILE",
        help="Ascend rank table to write, or to check.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JsonLinesOption(Request):
    json_lines: bool = flag(
        "--json-lines", group=OptionGroup.OUTPUT, help="Print a JSON document per host, one per line.",
        excludes=("as_json", "format", "output"),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HostsReportOptions(options.FleetOptions, JsonLinesOption, RankTableOption, ReportOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = options.OVER_SSH

    between: bool = flag(
        "--between", group=OptionGroup.HOSTS, is_common=True,
        help="Test clocks, ports, speed and RDMA between hosts.",
    )  # fmt: skip
    ports: str | None = option(
        "--ports", group=OptionGroup.HOSTS, metavar="PORTS",
        help="Ports for --between to test: 29500,60000-60015.", needs=("between",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DeepOptions(options.ConfirmOptions, ReportOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("deep",)

    deep: bool = flag(
        "--deep", group=OptionGroup.MACHINE, is_common=True, help="Run tests on the devices, after confirmation."
    )


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(JsonLinesOption, RankTableOption, ReportOptions):
    """Check a recording, or a folder with several."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ("replay",)

    replay: Path = options.replay_option()


REQUEST_TYPES = (
    ListOptions, UndoFixOptions, FixOptions, WatchOptions, HostsReportOptions, DeepOptions, ReplayOptions, ReportOptions
)  # fmt: skip
