"""python -m envcheck.cli.docs_explain docs/explain.md: the catalogue's table in the page, written anew."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from envcheck.explain import show
from envcheck.explain.catalogue import entries

_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- /table -->)", re.DOTALL)


def main(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(_TABLE.sub(lambda _: show.markdown(entries()), text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
