"""What a [[drivers]] table must hold beyond the kinds of its values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Driver

Complaint = Iterator[tuple[str, str]]  # (key, what is wrong)
SHORTEST = 4  # characters of a question's pattern: "?" would fit any
STARS = 4


def check(drivers: Iterable[Driver], file: str) -> None:
    """UsageError naming the first rule that does not hold."""
    for key, wrong in complaints(tuple(drivers)):
        raise UsageError(f"{file}: {key}: {wrong}")


def complaints(drivers: tuple[Driver, ...]) -> Complaint:
    for name, number in Counter(driver.name for driver in drivers).items():
        if number > 1:
            yield f"drivers.{name[:40]}", "stands twice"
    for driver in drivers:
        for rule in _RULES:
            for key, wrong in rule(driver):
                yield f"drivers.{driver.name[:40]}.{key}", wrong


def _files(driver: Driver) -> Complaint:
    if not driver.files or any("/" in pattern or not pattern.endswith(".run") for pattern in driver.files):
        yield "files", "expected names of files that end with .run"
    for pattern in driver.files:
        if pattern.count("*") > STARS or pattern.count("{version}") > 1 or pattern.count("{architecture}") > 1:
            yield "files", f"expected {STARS} * at most, and {{version}} and {{architecture}} once at most"


def _prompts(driver: Driver) -> Complaint:
    for number, prompt in enumerate(driver.prompts):
        key = f"prompts[{number}]"
        if len(prompt.pattern.replace("*", "").strip()) < SHORTEST:
            yield f"{key}.pattern", f"expected {SHORTEST} characters or more beside *: a shorter one fits anything"
        if not prompt.meaning:
            yield f"{key}.meaning", "expected what the answer means"
        if prompt.refusal and not prompt.licence:
            yield f"{key}.refusal", "is for a licence"


def _numbers(driver: Driver) -> Complaint:
    if not driver.exit_codes or any(code > 255 for code in driver.exit_codes):
        yield "exit_codes", "expected numbers from 0 to 255"
    if not 0 < driver.silence_s <= driver.deadline_s <= 24 * 3600:
        yield "silence_s", "expected seconds, above 0, up to deadline_s, which is a day at most"


def _versions(driver: Driver) -> Complaint:
    for number, query in enumerate(driver.versions):
        key = f"versions[{number}]"
        if bool(query.read) == bool(query.run):
            yield key, "expected either a file to read or a command to run"
        if query.read and not query.read.startswith("/"):
            yield f"{key}.read", "expected a path that begins with /"
        if query.says.count("{version}") != 1 or query.says.count("*") > STARS:
            yield f"{key}.says", f"expected {{version}} once, and {STARS} * at most"


def _published(driver: Driver) -> Complaint:
    for number, file in enumerate(driver.published):
        key = f"published[{number}]"
        if not all(url.startswith(("https://", "http://")) for url in (file.url, file.sha256_url or "https://")):
            yield f"{key}.url", "expected an http:// or https:// address"
        if file.sha256 and not re.fullmatch(r"[0-9a-f]{64}", file.sha256):
            yield f"{key}.sha256", "expected 64 hexadecimal digits in lower case"


_RULES: tuple[Callable[[Driver], Complaint], ...] = (_files, _prompts, _numbers, _versions, _published)
