"""Shell text in a YAML file: a list of words, or a multi-line text; each byte keeps its place."""

from __future__ import annotations

from typing import Any

from envcheck.scripts.interpreter.embedded_shell import ShellPieces, starts_shell
from envcheck.scripts.interpreter.yaml_nodes import YamlReader, list_scalars


def append_shell(reader: YamlReader, pieces: ShellPieces, argv: list[str], node: Any) -> ShellPieces:
    """Append words to the text; a word that a shell reads replaces the words before it."""
    if node.id == "scalar":
        pieces.add_raw(b" ", reader.locate_index(node.start_mark.index))
        _add_scalar(reader, pieces, node, b" ")
        return pieces
    for each in list_scalars(node):
        if starts_shell(argv):
            pieces = ShellPieces()
            _add_scalar(reader, pieces, each, b"\n")
            return pieces
        argv.append(str(each.value))
        pieces.add_word(str(each.value).replace("$$", "$").encode(), reader.make_word(each).start)
    return pieces


def _add_scalar(reader: YamlReader, pieces: ShellPieces, node: Any, newline: bytes) -> None:
    """Append a scalar line by line; `newline`: the meaning of a line end to its reader."""
    if node.style in ("|", ">"):
        newline = newline if node.style == "|" else b" "
        body = reader.text[node.start_mark.index : node.end_mark.index].partition("\n")[2]
        at = node.end_mark.index - len(body)
        indent = min((len(line) - len(line.lstrip()) for line in body.splitlines() if line.strip()), default=0)
        for line in body.splitlines(keepends=True):
            _add_unescaped(pieces, line[indent:].rstrip("\r\n"), reader.locate_index(at + min(indent, len(line))))
            pieces.add_raw(newline, reader.locate_index(at + len(line.rstrip("\r\n"))))
            at += len(line)
        return
    raw = reader.text[node.start_mark.index : node.end_mark.index]
    quoted = node.style in ("'", '"')
    plain = raw[1:-1] if quoted else raw
    as_written = plain == node.value or not (quoted and ("\\" in plain or "''" in plain))
    pieces.exact = pieces.exact and as_written
    _add_unescaped(
        pieces,
        plain.replace("\n", " ") if as_written else node.value,
        reader.locate_index(node.start_mark.index + quoted),
    )


def _add_unescaped(pieces: ShellPieces, text: str, at: int) -> None:
    """Append text in which $$ means a dollar sign."""
    for number, part in enumerate(text.split("$$")):
        pieces.add_raw(b"$" if number else b"", at + 1)
        at += 2 * bool(number)
        pieces.add_raw(part.encode(), at)
        at += len(part.encode())
