"""Translate a diagnosis; values from the log line are kept unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core import language
from envcheck.core.language import width
from envcheck.explain import catalogue, causality
from envcheck.explain.diagnosis import Diagnosis

OUR_VALUES = ("meaning", "advice", "hint", "held")  # values that are our text, not the log's


def translate_diagnosis(one: Diagnosis) -> Diagnosis:
    """Return the diagnosis in the selected language; the meaning of a code is translated too."""
    if language.current_language() == "en":
        return one
    entry = next((entry for entry in catalogue.load_entries() if entry.name == one.name), None)
    if entry is None:
        return replace(
            one,
            description=language.translate(one.description),
            why=language.translate(one.why),
            do=language.translate(one.do),
        )
    named = {name: language.translate(said) if name in OUR_VALUES else said for name, said in one.named}
    texts = (entry.says, entry.why, entry.do)
    says, why, do = (_fill_translation(language.translate(text), named) if text else "" for text in texts)
    return replace(one, description=says, why=why, do=do)


def translate_recorded_headline(recorded: Mapping[str, Any]) -> str:
    """Return the headline of a recorded diagnosis in the selected language; "" if the record is not ours."""
    says, named = recorded.get("description"), recorded.get("named")
    if not isinstance(says, str):
        return ""
    pairs = [pair for pair in named if _is_pair(pair)] if isinstance(named, (list, tuple)) else []
    entry = next((entry for entry in catalogue.load_entries() if entry.name == recorded.get("name")), None)
    if entry is None or language.current_language() == "en":
        return language.translate(says)
    values = {name: language.translate(text) if name in OUR_VALUES else text for name, text in pairs}
    return _fill_translation(language.translate(entry.says), values)


def _fill_translation(text: str, named: Mapping[str, str]) -> str:
    """Return the text with its values; Chinese has blanks around a name of the log, not around words of ours."""
    filled = causality.fill_placeholders(text, named)
    are_kept = any(width.remove_extra_blanks(value) != value for value in named.values())
    return filled if are_kept else width.remove_extra_blanks(filled)


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
