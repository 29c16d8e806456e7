"""Words as the program will get them, as far as a reader can know: quotes, variables, defaults, arrays, sums."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envcheck.core.lint.model import UNKNOWN, Block, Use, Word
from envcheck.scripts.nodes import DEPTH, ahead, text
from envcheck.scripts.state import LONGEST, MOST, State, Value

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSION = re.compile(r"\$\{(!?)(#?)([A-Za-z_]\w*|[@*?$!-]|\d+)(\[[^\]]*\])?(.*)\}", re.DOTALL)
_GUARDS = (":-", ":=", ":?", ":+", "-", "=", "?", "+")
_BRACES = re.compile(r"\{(?:(\d{1,3})\.\.(\d{1,3})|([^{},\s]*(?:,[^{},\s]*)+))\}")
_SUM = re.compile(r"[\d\s+*/%()-]{1,80}")
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_SPECIAL = frozenset("@*#?$!-0123456789_")


@dataclass
class Reader:
    """Reads words in a state; `inner` is told of command substitutions, `uses` gathers the variables read."""

    block: Block
    state: State
    inner: Callable[[Node], None]
    uses: list[Use]
    tested: bool = False

    def at(self, node: Node) -> tuple[int, int]:
        start = node.start_byte + ahead(node)
        return self.block.at(start), self.block.at(max(start, node.end_byte - 1)) + 1

    def words(self, node: Node) -> list[Word]:
        """The words that an argument becomes: none, one, or several."""
        start, end = self.at(node)
        found = self._several(node)
        if found is not None:
            return found[:MOST]
        got, soft = self.value(node)
        if "{" in text(node) and (braced := braces(text(node))):
            return [Word(each, start, end, soft=soft, raw=text(node)) for each in braced]
        quoted = node.type in ("string", "raw_string", "ansi_c_string")
        bare = node.type in ("simple_expansion", "expansion", "command_substitution")
        made = Word(got[:LONGEST], start, end, quoted, soft, bare and got == UNKNOWN, text(node))
        return list(_split(made)) if bare and got != UNKNOWN else [made]

    def word(self, node: Node) -> Word:
        start, end = self.at(node)
        got, soft = self.value(node)
        return Word(got[:LONGEST], start, end, node.type in ("string", "raw_string"), soft, raw=text(node))

    def _several(self, node: Node) -> list[Word] | None:
        """The words of ${array[@]}, of "$@", and of an unquoted variable that holds several; None for all else."""
        inner = node
        if node.type == "string" and node.named_child_count == 1:
            only = node.named_children[0]
            if only.start_byte == node.start_byte + 1 and only.end_byte == node.end_byte - 1:
                inner = only
        if inner.type not in ("expansion", "simple_expansion"):
            return None
        raw, (start, end) = text(inner), self.at(node)
        if raw in ("$@", "$*", "${@}", "${*}"):
            got = self.state.arguments
            return list(got) if got is not None else [self._open(start, end, raw)]
        match = _EXPANSION.fullmatch(raw)
        name = match[3] if match else raw[1:]
        if match and name in "@*" and not match[2]:
            got = self.state.arguments
            cut = re.fullmatch(r":(\d{1,3})", match[5])
            return (
                list(got[int(cut[1]) - 1 :])
                if got is not None and cut and cut[1] != "0"
                else [self._open(start, end, raw)]
            )
        value = self.state.values.get(name)
        if match and match[4] in ("[@]", "[*]") and not (match[1] or match[2]):
            self._use(name, inner, guarded=match[5].startswith(_GUARDS), quoted=inner is not node)
            if value is not None and value.array is not None and not match[5]:
                return list(value.array)
            return [self._open(start, end, raw)]
        if inner is node and value is not None and value.array is None and (raw[1] != "{" or (match and not match[5])):
            self._use(name, inner, guarded=False, quoted=False)
            return self._scattered(value.word, Word("", start, end, raw=raw))
        return None

    def _open(self, start: int, end: int, raw: str) -> Word:
        """As many words as nobody knows."""
        return Word(UNKNOWN, start, end, many=True, raw=raw)

    def _scattered(self, value: Word, site: Word) -> list[Word]:
        """The words of a variable that is not quoted, at the place where the script writes them."""
        parts = value.text.split()
        if not value.known:
            parts = parts or [UNKNOWN]
        if len(parts) < 2:
            return [replace(site, text=part, soft=value.soft, many=part == UNKNOWN) for part in parts]
        found, raw, base = [], value.raw, 0
        for part in parts:
            hit = raw.find(part, base)
            if hit < 0 or not raw.isascii():
                found.append(replace(site, text=part, soft=value.soft, many=part == UNKNOWN))
                continue
            base = hit + len(part)
            found.append(Word(part, value.start + hit, value.start + base, soft=value.soft, many=part == UNKNOWN))
        return found[:MOST]

    def value(self, node: Node, depth: int = 0) -> tuple[str, bool]:
        """The text, UNKNOWN where it is not known, and whether a default stands in it."""
        if depth > DEPTH:
            return UNKNOWN, False
        kind = node.type
        if kind in (
            "word",
            "number",
            "variable_name",
            "test_operator",
            "extglob_pattern",
            "regex",
            "special_variable_name",
        ):
            return _unescaped(text(node)), False
        if kind == "raw_string":
            return text(node)[1:-1], False
        if kind == "ansi_c_string":
            return text(node)[2:-1].replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'"), False
        if kind in ("string", "translated_string"):
            return self._joined(node, 1 if kind == "string" else 2, 1, depth, quoted=True)
        if kind in ("concatenation", "command_name", "heredoc_body"):
            return self._joined(node, 0, 0, depth, quoted=kind == "heredoc_body")
        if kind == "simple_expansion":
            return self._simple(node)
        if kind == "expansion":
            return self._expansion(node, depth)
        if kind in ("command_substitution", "process_substitution"):
            self.inner(node)
            return UNKNOWN, False
        if kind == "arithmetic_expansion":
            return self._sum(node), False
        if kind == "brace_expression":
            return text(node), False
        return (text(node), False) if node.child_count == 0 else self._joined(node, 0, 0, depth, quoted=False)

    def _joined(self, node: Node, head: int, tail: int, depth: int, quoted: bool) -> tuple[str, bool]:
        """Children and what the grammar leaves out between them."""
        raw, base = node.text or b"", node.start_byte
        parts, soft, done = [], False, base + head
        for child in node.named_children:
            if child.start_byte < done:
                continue
            parts.append(_literal(raw[done - base : child.start_byte + ahead(child) - base], quoted))
            if quoted and child.type == "string_content":
                got, more = _literal(child.text or b"", quoted), False
            else:
                got, more = self.value(child, depth + 1)
            parts.append(got)
            soft, done = soft or more, child.end_byte
        parts.append(_literal(raw[done - base : len(raw) - tail], quoted))
        return "".join(parts)[: LONGEST + 1], soft

    def _simple(self, node: Node) -> tuple[str, bool]:
        name = text(node).lstrip()[1:]
        if not name.strip() or name != name.strip():  # "$ pip", a prompt
            return UNKNOWN, False
        if name.isdigit() or name in _SPECIAL:
            return self._argument(name), False
        self._use(name, node, guarded=False, quoted=node.parent is not None and node.parent.type == "string")
        value = self.state.values.get(name)
        return (value.word.text, value.word.soft) if value else (UNKNOWN, False)

    def _argument(self, name: str) -> str:
        got = self.state.arguments
        if name.isdigit() and got is not None and name != "0":
            return got[int(name) - 1].text if int(name) <= len(got) else ""
        return UNKNOWN

    def _expansion(self, node: Node, depth: int) -> tuple[str, bool]:
        match = _EXPANSION.fullmatch(text(node).lstrip())
        if not match:
            return UNKNOWN, False
        indirect, count, name, index, rest = match.groups()
        guard = next((each for each in _GUARDS if rest.startswith(each)), "")
        if name.isdigit() or name in _SPECIAL:
            got, soft = self._argument(name), False
        else:
            self._use(name, node, bool(guard), node.parent is not None and node.parent.type == "string")
            value = self.state.values.get(name)
            got, soft = (value.word.text, value.word.soft) if value and not index else (UNKNOWN, False)
        if guard in ("-", ":-", "=", ":="):
            return self._default(node, name, guard, got, soft, depth)
        for child in node.named_children:  # ${x:+...$(...)...}: what stands in it runs as well
            if child.type in ("command_substitution", "expansion", "simple_expansion", "string", "concatenation"):
                self.value(child, depth + 1)
        if count and not rest:
            return self._length(name, index), soft
        if indirect or count or (rest and guard not in (":?", "?")):
            return UNKNOWN, soft
        return got, soft

    def _length(self, name: str, index: str | None) -> str:
        """${#name[@]}, ${#name}."""
        value = self.state.values.get(name)
        if value is None or (index and value.array is None):
            return UNKNOWN
        if index in ("[@]", "[*]") and value.array is not None:
            return UNKNOWN if any(word.many for word in value.array) else str(len(value.array))
        return str(len(value.word.text)) if value.word.known and not index else UNKNOWN

    def _default(self, node: Node, name: str, guard: str, got: str, soft: bool, depth: int) -> tuple[str, bool]:
        behind = [child for child in node.named_children if child.type != "variable_name"]
        given, _ = self._behind(node, behind, guard, depth)
        bound = name in self.state.values
        if "=" in guard and not bound:
            start, end = self.at(node)
            self.state.values[name] = Value(Word(given, start, end, soft=True))
        if bound and got:
            return got, soft
        return given, True

    def _behind(self, node: Node, behind: list[Node], guard: str, depth: int) -> tuple[str, bool]:
        """What stands behind the guard."""
        parts = []
        for child in behind:
            if child.type in ("special_variable_name", "subscript"):
                continue
            parts.append(self.value(child, depth + 1)[0])
        if parts:
            return "".join(parts), True
        raw = text(node)
        found = raw[:-1].partition(guard)[2]
        return (found if "$" not in found and "`" not in found else UNKNOWN), True

    def _sum(self, node: Node) -> str:
        """$((...)) of whole numbers, worked out here; anything else is unknown."""
        raw = text(node).lstrip()
        inner = raw[3:-2] if raw.startswith("$((") else raw[2:-1]

        def known(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            value = self.state.values.get(name)
            self._use(name, node, guarded=True, quoted=True)
            return value.word.text if value else UNKNOWN

        filled = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?|\$(\d)", known, inner)
        return str(found) if (found := whole(filled)) is not None else UNKNOWN

    def _use(self, name: str, node: Node, guarded: bool, quoted: bool) -> None:
        start, end = self.at(node)
        self.uses.append(Use(name, start, end, name in self.state.values, guarded or self.tested, quoted))


def braces(raw: str) -> list[str]:
    """The words that a{b,c} and a{0..7} become; [] where there is nothing of the kind, or more than that to read."""
    found = [raw]
    while any(_BRACES.search(each) for each in found) and len(found) < MOST and re.fullmatch(r"[^$`'\"\\\s]*", raw):
        found = [more for each in found for more in _opened(each)]
    return [each for each in found if each][:MOST] if found != [raw] else []


def _opened(word: str) -> list[str]:
    """By its first braces."""
    match = _BRACES.search(word)
    if match is None:
        return [word]
    ends = match[1], match[2]
    step = 1 if not ends[0] or int(ends[1]) >= int(ends[0]) else -1
    inner = map(str, range(int(ends[0]), int(ends[1]) + step, step)) if ends[0] else match[3].split(",")
    return [word[: match.start()] + each + word[match.end() :] for each in inner]


def whole(sum_: str) -> int | None:
    """The number that a sum of whole numbers is."""
    if not _SUM.fullmatch(sum_):
        return None
    try:
        return _worked(ast.parse(sum_.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, KeyError, OverflowError):
        return None


def _worked(node: ast.AST) -> int:
    if isinstance(node, ast.BinOp):
        found = _OPERATORS[type(node.op)](_worked(node.left), _worked(node.right))
        if abs(found) > 1 << 62:
            raise OverflowError
        return found
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_worked(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError


def _literal(raw: bytes, quoted: bool) -> str:
    found = raw.decode("utf-8", "replace")
    return re.sub(r"\\([\\\"$`\n])", lambda m: "" if m[1] == "\n" else m[1], found) if quoted else _unescaped(found)


def _unescaped(raw: str) -> str:
    return re.sub(r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], raw, flags=re.DOTALL)


def _split(word: Word) -> Iterator[Word]:
    for part in word.text.split():
        yield replace(word, text=part, many=part == UNKNOWN)
