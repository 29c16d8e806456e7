"""Names of models: whether there is one of this name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, near, swap, warn
from launch.catalogue import models

_OPTIONS = ("model_name_or_path", "model", "model_id", "pretrained_model_name_or_path", "model_path")
_ENDS = ("", "-base", "-chat", "-instruct", "-it", "-hf", "-pt", "-paddle", "-base-pt", "-base-paddle", "-thinking")
# Families of which every published shape is in the catalogue: another name of them is none.
_WHOLE = ("ernie-4.5-",)


@cache
def _published() -> dict[str, str]:
    """Names of models in small letters, without their publisher → as they are written."""
    found: dict[str, str] = {}
    for table in models.tables().values():
        hub = str(table["hub_id"])
        publisher, _, name = hub.rpartition("/")
        core = re.sub(r"(?i)(-(chat|base|instruct|it|pt|paddle|hf))+$", "", name)
        own = publisher if publisher in ("baidu",) else ""
        ends = _ENDS if own else _ENDS[:6]
        for end in ends:
            written = core + {"-pt": "-PT", "-base-pt": "-Base-PT"}.get(
                end, "".join(f"-{p.capitalize()}" for p in end.split("-")[1:])
            )
            found.setdefault(written.lower(), f"{publisher}/{written}" if publisher else written)
        found[name.lower()] = hub
    return found


def names(context: LintContext) -> Iterator[Remark]:
    published = _published()
    for job in context.jobs:
        for given in (job.option(name) for name in _OPTIONS):
            if given is None or not given.value or len(given.values) != 1 or len(given.value) > 200:
                continue
            value = given.value.rstrip("/")
            name = value.rpartition("/")[2].lower()
            if (
                not re.search(r"\d", name)
                or (name in published and not _bare_name(value))
                or context.machine.exists(value) is True
            ):
                continue
            word = given.values[0]
            longer = sorted((n for n in published if n.startswith(name) and n != name), key=lambda n: (len(n), n))
            cut = [n for n in longer if len(n) - len(name) <= 2 and not re.fullmatch(r"-\w*", n[len(name) :])]
            if cut:
                seen = f"{value[:80]} lacks a letter of {published[cut[0]].rpartition('/')[2]}"
                at = value[: len(value) - len(name)] + published[cut[0]].rpartition("/")[2]
                yield fail(
                    word,
                    seen,
                    f"{published[cut[0]]}",
                    swap(word, at) if word.raw.strip("\"'") == word.text and not word.quoted else None,
                )
            elif like := _typo(name, frozenset(published)):
                yield warn(word, f"{value[:80]} is spelt almost like {published[like]}", "The one that is meant.")
            elif name.startswith(_WHOLE) and (name not in published or (_bare_name(value) and _unpublished(name))):
                known = [published[n] for n in longer if n.endswith(("-paddle", "-pt"))][:2]
                shown = " or ".join(known) or published.get(near(name, frozenset(published), 0.85), "")
                seen = f"no model of the name {value.rpartition('/')[2][:60]} is published"
                seen += f": {shown}" if shown else ""
                yield warn(word, seen, "The folder that holds config.json, or the hub's own name.")


def _typo(name: str, published: frozenset[str]) -> str:
    """A published name with the same figures and one letter another, more or less."""
    like = near(name, published, 0.95) if name not in published else ""
    figures = [re.findall(r"\d+", each) for each in (name, like)]
    return like if like and figures[0] == figures[1] and abs(len(like) - len(name)) <= 1 else ""


def _bare_name(value: str) -> bool:
    return "/" not in value


def _unpublished(name: str) -> bool:
    """ERNIE's weights are published for one framework each."""
    return not name.endswith(("-paddle", "-pt"))
