"""The table of report formats and their file extensions."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.report.contents import DoctorReport


@dataclass(frozen=True)
class Format:
    """`module` has `render(report) -> str` and is imported on demand; `endings` are the file extensions."""

    module: str
    endings: tuple[str, ...]


FORMATS = {
    "table": Format("envcheck.report.plain_text", (".txt",)),
    "json": Format("envcheck.report.document", (".json",)),
    "html": Format("envcheck.report.page", (".html", ".htm")),
    "junit": Format("envcheck.report.junit", (".xml",)),
    "sarif": Format("envcheck.report.sarif", (".sarif", ".sarif.json")),
    "prometheus": Format("envcheck.report.prometheus", (".prom",)),
    "markdown": Format("envcheck.report.markdown", (".md",)),
}
WITH_FACTS = ("html", "prometheus")  # formats that show the devices of hosts
OF_PROBLEMS = ("table",)  # formats that show only the problems of several hosts


def render(name: str, report: DoctorReport) -> str:
    """Return the report in this format, with a line feed at its end."""
    text: str = importlib.import_module(FORMATS[name].module).render(report)
    return text


def choose_format(name: str | None, as_json: bool, out: str | None) -> str:
    """Return the format that --format, --json or the file extension selects; UsageError if they conflict."""
    to_file = out is not None and out != "-"
    if as_json and not to_file and name not in (None, "json"):
        raise UsageError(_("--json conflicts with --format {name}", name=name), _("use only one of them"))
    if name or not to_file:
        return name or ("json" if as_json else "table")
    fitting = [(end, name) for name, one in FORMATS.items() for end in one.endings if Path(str(out)).name.endswith(end)]
    if not fitting and not as_json:
        raise UsageError(
            _("cannot derive a report format from the file name {out}", out=out),
            _("specify --format {formats}", formats="|".join(FORMATS)),
        )
    return max(fitting, key=lambda pair: len(pair[0]), default=("", "json"))[1]
