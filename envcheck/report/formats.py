"""The table of formats, and which of them a file's ending means."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.report.contents import Report


@dataclass(frozen=True)
class Format:
    """`module` has `render(report) -> str`, imported when it is asked for; `endings` are those of its files."""

    module: str
    endings: tuple[str, ...]


FORMATS = {
    "table": Format("envcheck.report.text", (".txt",)),
    "json": Format("envcheck.report.document", (".json",)),
    "html": Format("envcheck.report.page", (".html", ".htm")),
    "junit": Format("envcheck.report.junit", (".xml",)),
    "sarif": Format("envcheck.report.sarif", (".sarif", ".sarif.json")),
    "prometheus": Format("envcheck.report.prometheus", (".prom",)),
    "markdown": Format("envcheck.report.markdown", (".md",)),
}
WITH_FACTS = ("html", "prometheus")  # these show the devices of hosts


def render(name: str, report: Report) -> str:
    """The report as that format has it, with a line feed at its end."""
    text: str = importlib.import_module(FORMATS[name].module).render(report)
    return text


def chosen(name: str | None, as_json: bool, out: str | None) -> str:
    """The format that is meant by --format, --json and the file's ending; UsageError where they disagree."""
    to_file = out is not None and out != "-"
    if as_json and not to_file and name not in (None, "json"):
        raise UsageError(f"--json and --format {name} ask for two formats", "leave one of them out")
    if name or not to_file:
        return name or ("json" if as_json else "table")
    fitting = [(end, name) for name, one in FORMATS.items() for end in one.endings if Path(str(out)).name.endswith(end)]
    if not fitting and not as_json:
        raise UsageError(f"the ending of {out} means no format", f"add --format {'|'.join(FORMATS)}")
    return max(fitting, key=lambda pair: len(pair[0]), default=("", "json"))[1]
