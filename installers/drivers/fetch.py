"""`--install-driver fetch`: download the vendor's published file for the recipe into the cache."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass

from envcheck.collect import answer_sources as machines
from envcheck.collect.answer_sources import AnswerSource
from envcheck.core.language import translate
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Question
from envcheck.core.versions import compare_versions
from installers.drivers import download, host_facts, installation, installer_tables
from installers.drivers.download import DownloadedFile
from installers.drivers.download_http import parse_file_name
from installers.drivers.installer_tables import meets_minimum
from installers.output.plan_text import MARGIN, ProgressScreen, fold_lines, format_row
from installers.recipes.recipe import PublishedDriverFile, Recipe
from installers.state.progress import ProgressEvent


@dataclass(frozen=True)
class DriverFetchPlan:
    """The file to download; `up_to_date`: the installed version suffices, so nothing is downloaded."""

    title: str
    file: PublishedDriverFile
    minimum: str | None
    installed: str | None
    up_to_date: bool


def plan_fetch(recipe: Recipe, allow_downgrade: bool, machine: AnswerSource | None = None) -> DriverFetchPlan:
    """Return which file to download.  UsageError if the vendor publishes none that fits."""
    at = machine or machines.local_machine()
    file = installation.find_published_file(recipe, read_architecture(at))
    named = installer_tables.match_installer(installer_tables.list_drivers(recipe), parse_file_name(file.url)).driver
    there, minimum = host_facts.read_installed_version(named, at), installation.required_minimum(recipe, named)
    return DriverFetchPlan(
        named.title, file, minimum, there, _is_recent_enough(there, minimum, file.version) and not allow_downgrade
    )


def _is_recent_enough(there: str | None, minimum: str | None, published: str) -> bool:
    """Return whether the installed version suffices; without a minimum, whether it is as new as the published one."""
    if not there:
        return False
    order = compare_versions(there, published)
    return bool(meets_minimum(there, minimum)) if minimum else order is not None and order >= 0


def render_text(plan: DriverFetchPlan, recipe: str) -> str:
    """Return the download plan as text."""
    here = installation.describe_versions(plan.installed, plan.minimum)
    first = translate(
        _(
            "{installer} for {recipe}, from {source}",
            installer=f"{translate(plan.title)} {plan.file.version}",
            recipe=recipe,
            source=plan.file.url,
        )
    )
    if plan.up_to_date:
        return fold_lines(
            (first, format_row(translate(_("ok")), translate(here)), f"  {translate(_('nothing to do'))}")
        )
    known = (
        _("published")
        if plan.file.sha256 or plan.file.sha256_url
        else _("not published; envcheck asks you to confirm it")
    )
    fetching = translate(_("download to {cache}, resuming an earlier download", cache=download.cache_folder()))
    lines = (
        first,
        format_row(translate(_("step {number}", number=1)), fetching),
        f"{MARGIN}{translate(_('reason: {why}', why=here))}",
        f"{MARGIN}{translate(_('SHA-256: {known}', known=known))}",
        format_row(
            translate(_("step {number}", number=2)),
            translate(_("check the file, show the installation plan, and ask for confirmation")),
        ),
    )
    return fold_lines(lines)


def fetch_file(plan: DriverFetchPlan, sha256: str) -> DownloadedFile:
    """Return the file from the cache or the vendor; `sha256` is the user's own checksum, "" if none was given."""
    with ProgressScreen() as screen:
        screen.show_event(ProgressEvent("begin", _("download {url}", url=parse_file_name(plan.file.url))))
        fetched = installation.fetch_driver_file(
            plan.file,
            locked_sha256=sha256,
            progress=lambda done, total: screen.show_event(
                ProgressEvent("bytes", verbatim(parse_file_name(plan.file.url)), done, total)
            ),
        )
        screen.show_event(ProgressEvent("end", _("{path}, SHA-256 {sha256}", path=fetched.path, sha256=fetched.sha256)))
    return fetched


def read_architecture(machine: AnswerSource | None = None) -> str:
    """Return the architecture of the target machine, which may be a simulated one."""
    try:
        sent = json.loads(
            (machine or machines.local_machine())(Question("ask", ("host",), host_facts.QUESTION_S)).out or "{}"
        )
    except ValueError:
        sent = {}
    return str(sent.get("architecture") or platform.machine()) if isinstance(sent, dict) else platform.machine()
