"""The shell in a YAML file: a list of words, a text over several lines; each byte keeps its place."""

from __future__ import annotations

from typing import Any

from envcheck.scripts.interpreter.embedded_shell import Pieces, shell_of
from envcheck.scripts.interpreter.yaml_nodes import Reader, items


def appended(reader: Reader, pieces: Pieces, argv: list[str], node: Any) -> Pieces:
    """The words behind those that are there; the one that a shell reads takes their place."""
    if node.id == "scalar":
        pieces.add(b" ", reader.at(node.start_mark.index))
        _text(reader, pieces, node, b" ")
        return pieces
    for each in items(node):
        if shell_of(argv):
            pieces = Pieces()
            _text(reader, pieces, each, b"\n")
            return pieces
        argv.append(str(each.value))
        pieces.word(str(each.value).replace("$$", "$").encode(), reader.word(each).start)
    return pieces


def _text(reader: Reader, pieces: Pieces, node: Any, newline: bytes) -> None:
    """The scalar line by line; `newline`: what the end of a line is to its reader."""
    if node.style in ("|", ">"):
        newline = newline if node.style == "|" else b" "
        body = reader.text[node.start_mark.index : node.end_mark.index].partition("\n")[2]
        at = node.end_mark.index - len(body)
        indent = min((len(line) - len(line.lstrip()) for line in body.splitlines() if line.strip()), default=0)
        for line in body.splitlines(keepends=True):
            _dollars(pieces, line[indent:].rstrip("\r\n"), reader.at(at + min(indent, len(line))))
            pieces.add(newline, reader.at(at + len(line.rstrip("\r\n"))))
            at += len(line)
        return
    raw = reader.text[node.start_mark.index : node.end_mark.index]
    quoted = node.style in ("'", '"')
    plain = raw[1:-1] if quoted else raw
    as_written = plain == node.value or not (quoted and ("\\" in plain or "''" in plain))
    pieces.exact = pieces.exact and as_written
    _dollars(pieces, plain.replace("\n", " ") if as_written else node.value, reader.at(node.start_mark.index + quoted))


def _dollars(pieces: Pieces, text: str, at: int) -> None:
    """$$ is a dollar to the shell."""
    for number, part in enumerate(text.split("$$")):
        pieces.add(b"$" if number else b"", at + 1)
        at += 2 * bool(number)
        pieces.add(part.encode(), at)
        at += len(part.encode())
