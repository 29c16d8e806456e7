"""Rules for [[drivers]] tables beyond the types of their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _
from installers.recipes.recipe import DriverInstaller

Complaint = Iterator[tuple[str, Message]]  # (key, complaint)
SHORTEST = 4  # minimum number of characters of a prompt pattern: "?" would match every question
STARS = 4


def check_drivers(drivers: Iterable[DriverInstaller], file: str) -> None:
    """Raise UsageError for the first broken rule; `file` is only quoted."""
    for key, wrong in find_complaints(tuple(drivers)):
        raise UsageError(_("{file}: {key}: {wrong}", file=file, key=key, wrong=wrong))


def find_complaints(drivers: tuple[DriverInstaller, ...]) -> Complaint:
    """Yield (key, complaint) for each broken rule; names must be unique."""
    for name, number in Counter(driver.name for driver in drivers).items():
        if number > 1:
            yield f"drivers.{name[:40]}", _("duplicate entry")
    for driver in drivers:
        for rule in _RULES:
            for key, wrong in rule(driver):
                yield f"drivers.{driver.name[:40]}.{key}", wrong


def _check_files(driver: DriverInstaller) -> Complaint:
    if not driver.files or any("/" in pattern or not pattern.endswith(".run") for pattern in driver.files):
        yield "files", _("expected file names that end with .run")
    for pattern in driver.files:
        if pattern.count("*") > STARS or pattern.count("{version}") > 1 or pattern.count("{architecture}") > 1:
            yield (
                "files",
                _(
                    "expected at most {stars} wildcards (*), and {{version}} and {{architecture}} at most once each",
                    stars=STARS,
                ),
            )


def _check_prompts(driver: DriverInstaller) -> Complaint:
    for number, prompt in enumerate(driver.prompts):
        key = f"prompts[{number}]"
        if len(prompt.pattern.replace("*", "").strip()) < SHORTEST:
            yield (
                f"{key}.pattern",
                _(
                    "expected at least {shortest} characters besides *: a shorter pattern matches anything",
                    shortest=SHORTEST,
                ),
            )
        if not prompt.meaning:
            yield f"{key}.meaning", _("expected the meaning of the answer")
        if prompt.refusal and not prompt.licence:
            yield f"{key}.refusal", _("allowed only with licence = true")


def _check_numbers(driver: DriverInstaller) -> Complaint:
    if not driver.exit_codes or any(code > 255 for code in driver.exit_codes):
        yield "exit_codes", _("expected numbers from 0 to 255")
    if not 0 < driver.silence_s <= driver.deadline_s <= 24 * 3600:
        yield "silence_s", _("expected a number of seconds above 0 and up to deadline_s (at most one day)")


def _check_versions(driver: DriverInstaller) -> Complaint:
    for number, query in enumerate(driver.versions):
        key = f"versions[{number}]"
        if bool(query.read) == bool(query.run):
            yield key, _("expected either a file to read or a command to run")
        if query.read and not query.read.startswith("/"):
            yield f"{key}.read", _("expected an absolute path")
        if query.pattern.count("{version}") != 1 or query.pattern.count("*") > STARS:
            yield f"{key}.pattern", _("expected {{version}} once and at most {stars} wildcards (*)", stars=STARS)


def _check_published(driver: DriverInstaller) -> Complaint:
    for number, file in enumerate(driver.published):
        key = f"published[{number}]"
        if not all(url.startswith(("https://", "http://")) for url in (file.url, file.sha256_url or "https://")):
            yield f"{key}.url", _("expected an http:// or https:// URL")
        if file.sha256 and not re.fullmatch(r"[0-9a-f]{64}", file.sha256):
            yield f"{key}.sha256", _("expected 64 lowercase hexadecimal digits")


_RULES: tuple[Callable[[DriverInstaller], Complaint], ...] = (
    _check_files,
    _check_prompts,
    _check_numbers,
    _check_versions,
    _check_published,
)
