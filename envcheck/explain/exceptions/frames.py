"""The frames of a Python traceback, line by line; pure."""

from __future__ import annotations

import re

SOURCE_WIDTH = 200  # characters of a source line that are kept
_FRAME = re.compile(r'^\s{0,40}(?:> )?File "([^"]{1,400})", line (\d{1,9}), in (\S{1,200})')
# In the boxes of rich: `│ /w/train.py:14 in main   │`, and the source line `│ ❱ 14 │   main()   │`.
_BOXED = re.compile(r"^\s{0,8}[│|] ([^\s:]{1,400}):(\d{1,9}) in (\S{1,200})")
_BOXED_SOURCE = re.compile(r"^\s{0,8}[│|] ❱ {1,4}\d{1,9} (.{0,300})")
# In a notebook: `File ~/lib/x.py:14, in main(a)`, `/lib/x.py in main(a)`, and the source line `---> 14 main()`; its own
# cells: `Cell In[9], line 5, in score(a)`, without a function outside of one.
_NOTEBOOK = re.compile(r"^File ([^\s:]{1,400}):(\d{1,9}), in ([\w.<>]{1,200})")
_OLD_NOTEBOOK = re.compile(
    r"^\[?([~/][^\s\]]{1,400}\.py|<ipython-input-[\w-]{1,60}>)(?:\]\(\S{0,200}\))? in ([\w.<>]{1,80})\("
)
_CELL = re.compile(r"^(Cell In ?\[\d{1,6}\]), line (\d{1,6})(?:, in ([\w.<>]{1,200}))?")
_ARROW = re.compile(r"^-{1,8}> {0,4}\d{1,9} ?(.{0,300})")
_NUMBERED = re.compile(r"^\d{1,9}(?:\s|$)")
_RULES = "│| "
# The source line that raises an exception, with values that are filled in when it runs.
_TEMPLATE = re.compile(
    r"^\W{0,12}(?:rank\d{1,5}\]:)?\s{0,60}raise [A-Za-z_][\w.]{1,120}\(\s{0,4}f?[rb]?['\"].{0,400}\{\w"
)


def parse_frame(line: str) -> str | None:
    """Return `path:line, in function` if the line begins a frame, else None; a notebook may not give the line."""
    found = _FRAME.match(line) or _BOXED.match(line) or _NOTEBOOK.match(line)
    if found:
        return f"{found[1]}:{found[2]}, in {found[3]}"
    if cell := _CELL.match(line):
        return f"{cell[1]}:{cell[2]}, in {cell[3] or '<module>'}"
    old = _OLD_NOTEBOOK.match(line)
    return f"{old[1]}, in {old[2]}" if old else None


def is_template(line: str) -> bool:
    """Return whether the line is source code that raises a message whose values it does not have."""
    return bool(_TEMPLATE.match(line))


def parse_source(line: str) -> str:
    """Return the source line that follows a frame; "" for an empty line and for marks below a source line."""
    text = line.strip()
    if text[:1] == "│":
        boxed = _BOXED_SOURCE.match(line)
        return boxed[1].strip(_RULES)[:SOURCE_WIDTH] if boxed else ""
    if arrow := _ARROW.match(text):
        return arrow[1].strip()[:SOURCE_WIDTH]
    if _NUMBERED.match(text):  # a notebook's lines around the source line
        return ""
    return "" if text[:1] in ("^", "~", "+", "|") else text[:SOURCE_WIDTH]
