"""Rules about model names: whether such a model is published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, replace_span, warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.messages import _, join, verbatim
from launch.catalogue import models

_OPTIONS = ("model_name_or_path", "model", "model_id", "pretrained_model_name_or_path", "model_path")
_ENDS = ("", "-base", "-chat", "-instruct", "-it", "-hf", "-pt", "-paddle", "-base-pt", "-base-paddle", "-thinking")
# Families whose published models are all in the catalogue: any other name does not exist.
_WHOLE = ("ernie-4.5-",)


@cache
def _load_published_names() -> dict[str, str]:
    """Published names in lower case, without publisher → their spelling."""
    found: dict[str, str] = {}
    for table in models.load_tables().values():
        hub = str(table["hub_id"])
        publisher, _unused, name = hub.rpartition("/")
        core = re.sub(r"(?i)(-(chat|base|instruct|it|pt|paddle|hf)){1,8}$", "", name)
        own = publisher if publisher in ("baidu",) else ""
        ends = _ENDS if own else _ENDS[:6]
        for end in ends:
            written = core + {"-pt": "-PT", "-base-pt": "-Base-PT"}.get(
                end, "".join(f"-{p.capitalize()}" for p in end.split("-")[1:])
            )
            found.setdefault(written.lower(), f"{publisher}/{written}" if publisher else written)
        found[name.lower()] = hub
    return found


def find_unknown_model_names(context: LintContext) -> Iterator[Remark]:
    published = _load_published_names()
    for job in context.jobs:
        for given in (job.find_option(name) for name in _OPTIONS):
            if given is None or not given.value or len(given.values) != 1 or len(given.value) > 200:
                continue
            value = given.value.rstrip("/")
            name = value.rpartition("/")[2].lower()
            if (
                not re.search(r"\d", name)
                or (name in published and not _has_no_publisher(value))
                or context.machine.path_exists(value) is True
            ):
                continue
            word = given.values[0]
            longer = sorted((n for n in published if n.startswith(name) and n != name), key=lambda n: (len(n), n))
            cut = [n for n in longer if len(n) - len(name) <= 2 and not re.fullmatch(r"-\w*", n[len(name) :])]
            if cut:
                seen = _(
                    "{name} is missing a letter of {published}",
                    name=value[:80],
                    published=published[cut[0]].rpartition("/")[2],
                )
                at = value[: len(value) - len(name)] + published[cut[0]].rpartition("/")[2]
                yield fail(
                    word,
                    seen,
                    verbatim(f"{published[cut[0]]}"),
                    replace_span(word, at) if word.raw.strip("\"'") == word.text and not word.quoted else None,
                )
            elif like := _find_misspelling(name, frozenset(published)):
                yield warn(
                    word,
                    _(
                        "{name} differs from the published {published} by one letter",
                        name=value[:80],
                        published=published[like],
                    ),
                    _("Check the name."),
                )
            elif name.startswith(_WHOLE) and (
                name not in published or (_has_no_publisher(value) and _lacks_framework_suffix(name))
            ):
                known = [published[n] for n in longer if n.endswith(("-paddle", "-pt"))][:2]
                shown = join(_(" or "), known) if known else ""
                shown = shown or published.get(find_similar_name(name, frozenset(published), 0.85), "")
                model = value.rpartition("/")[2][:60]
                if shown:
                    seen = _("no published model is named {model}; did you mean {shown}?", model=model, shown=shown)
                else:
                    seen = _("no published model is named {model}", model=model)
                yield warn(word, seen, _("Use the directory that contains config.json, or the name on the model hub."))


def _find_misspelling(name: str, published: frozenset[str]) -> str:
    """A published name with the same figures that differs by one letter."""
    like = find_similar_name(name, published, 0.95) if name not in published else ""
    figures = [re.findall(r"\d+", each) for each in (name, like)]
    return like if like and figures[0] == figures[1] and abs(len(like) - len(name)) <= 1 else ""


def _has_no_publisher(value: str) -> bool:
    return "/" not in value


def _lacks_framework_suffix(name: str) -> bool:
    """ERNIE's weights are published separately for each framework."""
    return not name.endswith(("-paddle", "-pt"))
