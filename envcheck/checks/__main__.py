"""docs/checks.md: python -m envcheck.checks > docs/checks.md"""

from __future__ import annotations

from itertools import groupby

from envcheck.checks import CHECKS


def page() -> str:
    """One table an area, out of the table of checks."""
    lines = [
        "# The checks of `envcheck doctor`",
        "",
        f"{len(CHECKS)} checks, made from the table in `envcheck/checks/__init__.py` by `python -m envcheck.checks`.",
        "Each answers OK, SKIP (does not apply), UNKNOWN (could not be told), WARN or FAIL, these with a remedy.",
    ]
    for area, checks in groupby(CHECKS, key=lambda check: check.area):
        lines += ["", f"## {area}", "", "| check | says | reads | for | source |", "| --- | --- | --- | --- | --- |"]
        lines += [f"| `{c.name}` | {c.says} | {c.reads} | {c.applies_to} | {c.source} |" for c in checks]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
