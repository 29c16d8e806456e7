"""A diagnosis in the chosen language; what the log's line named stays as it stands there."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core import language
from envcheck.explain import catalogue, order
from envcheck.explain.model import Diagnosis

_MARK = re.compile(r"@(\w{1,20})@")


def spoken(one: Diagnosis) -> Diagnosis:
    """Said with marks where values stand, which are put in afterwards; of them a code's meaning is ours to say."""
    if language.chosen() == "en":
        return one
    entry = next((entry for entry in catalogue.entries() if entry.name == one.name), None)
    texts = (entry.says, entry.why, entry.do) if entry else (one.says, one.why, one.do)
    named = dict(one.named)
    marks = {name: f"@{name}@" for name in named}

    def put(found: re.Match[str]) -> str:
        said = named.get(found[1], found[0])
        return language.say(said) if found[1] == "meaning" else said[: order.LONGEST]

    says, why, do = (_MARK.sub(put, language.say(order.words(text, marks) if entry else text)) for text in texts)
    return replace(one, says=says, why=why, do=do)
