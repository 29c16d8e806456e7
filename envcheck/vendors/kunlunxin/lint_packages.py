"""Lint rules for the packages of programs on XPUs: the index of the wheel, and two builds of paddle."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.remark_builders import warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import _, verbatim
from envcheck.vendors.kunlunxin import VENDOR

OLDER_INDEX = "https://www.paddlepaddle.org.cn/packages/stable/xpu/"
_OTHER_BUILDS = ("paddlepaddle", "paddlepaddle-gpu")


def find_wrong_index(context: LintContext) -> Iterator[Remark]:
    """Yield a warning for the index of another generation of cards, and for none."""
    for install in context.installs:
        word = _find_package(install, VENDOR.paddle_build)
        index = install.find_option("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
        if word is None or re.search(r"\.whl\b|://|@", word.text) or (index is not None and not index.is_known):
            continue
        older = _find_older_card(context)
        if index is None and not install.find_option("--no-index"):
            seen = _("without an index, pip finds no wheel for P800: PyPI does not have it")
            yield warn(word, seen, verbatim(f"-i {OLDER_INDEX if older else VENDOR.paddle_index}"))
        elif index and re.search(r"/(?:stable|nightly)/xpu/?$", index.text) and not older:
            seen = _("this index has the wheels for K200, R200 and R300; on P800 they do not find the cards")
            yield warn(index, seen, _("For P800 use the index {index}.", index=VENDOR.paddle_index))
        elif index and re.search(r"/xpu-p800/?$", index.text) and older:
            seen = _("this index has the wheels for P800; they do not find this host's cards ({name})", name=older)
            yield warn(index, seen, _("For these cards use the index {index}.", index=OLDER_INDEX))


def _find_older_card(context: LintContext) -> str:
    """Return the name of the host's first card that is older than P800; "" if there is none or it is unknown."""
    facts = context.machine.facts if context.is_for_this_machine else None
    names = [device.name for each in facts.vendors for device in each.devices if device.name] if facts else []
    return next((name for name in names if re.search(VENDOR.legacy_devices, name, re.IGNORECASE)), "")


def find_two_builds(context: LintContext) -> Iterator[Remark]:
    """Yield remarks if a script installs another build of paddle besides the one for XPUs."""
    for install in context.installs:
        own = _find_package(install, VENDOR.paddle_build)
        if own is None or any(_uninstalls_paddle(words.list_texts()) for words in install.script.commands):
            continue
        for other in (each for each in context.installs if each.script is install.script):
            for name in _OTHER_BUILDS:
                if (word := _find_package(other, name)) is not None:
                    yield _remark_second_build(word, name, word.start > own.start)


def _remark_second_build(word: ShellWord, name: str, later: bool) -> Remark:
    seen = _(
        "{name} and {own} share the folder paddle: the one installed last overwrites the other",
        name=name,
        own=VENDOR.paddle_build,
    )
    return warn_or_fail(later, word, seen, _("Install {own} only.", own=VENDOR.paddle_build))


def _find_package(install: PipInstall, wanted: str) -> ShellWord | None:
    return next((word for name, _unused, _unused, word in install.packages if name == wanted), None)


def _uninstalls_paddle(texts: list[str]) -> bool:
    return "uninstall" in texts and any(text.startswith("paddlepaddle") for text in texts)
