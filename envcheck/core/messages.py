"""Messages: templates with named values, written in English and translated when they are printed.

    fail(_("Device {index}: {used_mib} MiB in use by other processes", index=3, used_mib=20480))

A `Message` is a `str` with its English text, so programs, logs and JSON documents need nothing else; `template` and
`values` are kept for `envcheck.core.language.translate`. The catalogue tool (`envcheck.cli.message_catalogue`) finds
the templates as the first argument of `_` and `mark` and the first two of `ngettext`, so they must be literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from string import Formatter
from typing import Any

NESTING_LIMIT = 6  # messages within messages in a document
TEMPLATE_LIMIT = 2000  # characters
SPEC_MARKS = ".,0123456789<>efgd%"
SPEC_LIMIT = 4  # of a number's format: a width of thousands would fill the memory


class Message(str):
    """English text with its template and values; `number` selects the template or its `plural`."""

    template: str
    plural: str
    number: int
    values: Mapping[str, Any]

    def __new__(
        cls, template: str, values: Mapping[str, Any] | None = None, plural: str = "", count: int = 1
    ) -> Message:
        chosen = plural if plural and count != 1 else template
        self = super().__new__(cls, chosen.format(**values) if values else chosen)
        self.template, self.plural, self.number, self.values = template, plural, count, values or {}
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.template, self.values, self.plural, self.number))

    def __copy__(self) -> Message:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Message:
        return self


def _(template: str, /, **values: object) -> Message:
    """Return the message of a template. Values that are messages are translated too; other values are not."""
    return Message(template, values)


def ngettext(singular: str, plural: str, count: int, /, **values: object) -> Message:
    """Return a message with a singular and a plural template; both can use {count}."""
    return Message(singular, {"count": count, **values}, plural, count)


def mark(template: str) -> str:
    """Return the literal unchanged, and mark it for the catalogue: a table stores it, and `fill` or `translate` uses
    it."""
    return template


def fill(template: str, /, **values: object) -> Message:
    """Return the message of a template that is not a literal here: one that `mark` marked, or a text of a TOML file."""
    return Message(template, values)


def describe(text: str) -> dict[str, Any]:
    """Return the template and the values of a message for JSON; `restore` is the inverse.

    A value that is a message is described in turn; `plural` is the template for counts other than 1.
    """
    message = text if isinstance(text, Message) else verbatim(text)
    values = {name: _describe_value(value) for name, value in message.values.items()}
    plural = {"plural": message.plural} if message.plural else {}
    return {"template": message.template, **plural, "values": values}


def _describe_value(value: object) -> Any:
    if isinstance(value, Message):
        return describe(value)
    if isinstance(value, str):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def restore(text: str, described: object, clean: Callable[[str], str] = str) -> Message:
    """Return the message that `describe` wrote, if its text is still `text`; otherwise `text` verbatim.

    Both are untrusted input: `clean` sanitises their strings, and a template with anything other than names and plain
    number formats is rejected.
    """
    try:
        made = _restore(described, clean, NESTING_LIMIT)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return verbatim(clean(text))
    return made if str(made) == clean(text) else verbatim(clean(text))


def _restore(described: Any, clean: Callable[[str], str], depth: int) -> Message:
    template, plural, values = described["template"], described.get("plural", ""), described["values"]
    if depth == 0 or not all(map(_is_plain_template, (template, plural))):
        raise ValueError("not a template of envcheck")
    known = {
        str(name): _restore(value, clean, depth - 1)
        if isinstance(value, dict)
        else clean(value)
        if isinstance(value, str)
        else value
        for name, value in values.items()
    }
    return Message(template, known, plural, int(known["count"]) if plural else 1)


def _is_plain_template(template: str) -> bool:
    if len(template) > TEMPLATE_LIMIT:
        return False
    named = [(name, spec or "") for _text, name, spec, _conversion in Formatter().parse(template) if name is not None]
    return all(name.isidentifier() and len(spec) <= SPEC_LIMIT and not spec.strip(SPEC_MARKS) for name, spec in named)


def verbatim(text: str) -> Message:
    """Return text from a tool, a file or a person as a message that is never translated."""
    return text if isinstance(text, Message) else Message("{text}", {"text": text})


def join(separator: str, parts: Iterable[str]) -> Message:
    """Return the parts with a separator between them; parts and separator are translated: join(", ", names)."""
    listed = list(parts)
    if not listed:
        return Message("")
    between = separator if isinstance(separator, Message) else Message(separator)
    names = [f"part{n}" for n in range(len(listed))]
    template = "{separator}".join(f"{{{name}}}" for name in names)
    return Message(template, {"separator": between, **dict(zip(names, listed, strict=True))})


NOTHING = Message("")
