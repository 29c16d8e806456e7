"""Words as the program receives them, as far as they are known: quotes, variables, defaults, arrays, arithmetic."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import UNKNOWN, ShellWord, SourceBlock, VariableUse
from envcheck.scripts.shell_grammar import DEPTH, count_leading_blanks, read_text
from envcheck.scripts.shell_state import LONGEST, MOST, ShellState, ShellValue
from envcheck.scripts.trim_value import trim_value

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSION = re.compile(r"\$\{(?=.*\}\Z)(!?)(#?)([A-Za-z_]\w*|[@*?$!-]|\d+)(\[[^\]]*\])?(.*)\}", re.DOTALL)
_GUARDS = (":-", ":=", ":?", ":+", "-", "=", "?", "+")
_BRACES = re.compile(r"\{(?:(\d{1,3})\.\.(\d{1,3})|([^{},\s]*(?:,[^{},\s]*)+))\}")
_NAME_IN_SUM = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?|\$(\d)")
_SUM = re.compile(r"[\d\s+*/%()-]{1,80}")
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_BACKSLASH = re.compile(r"\\(.|\n)", re.DOTALL)
_CUT_NAME = re.compile(r"[A-Za-z_]\w*")
_LITERALS = frozenset(
    ("word", "number", "variable_name", "test_operator", "extglob_pattern", "regex", "special_variable_name")
)
_MEANINGFUL = re.compile(r"[\\{]")  # in a literal
_SPECIAL = frozenset("@*#?$!-0123456789_")


@dataclass
class WordReader:
    """Reads words in a state; `inner` reads the output of a substitution, `uses` collects the variables read."""

    block: SourceBlock
    state: ShellState
    inner: Callable[[Node], str]
    uses: list[VariableUse]
    tested: bool = False

    def locate_node(self, node: Node) -> tuple[int, int]:
        """Return start and end of a node in the file, in bytes."""
        start = node.start_byte + count_leading_blanks(node)
        return self.block.map_to_file(start), self.block.map_to_file(max(start, node.end_byte - 1)) + 1

    def read_words(self, node: Node) -> list[ShellWord]:
        """Return the words that an argument expands to: none, one, or several."""
        start, end = self.locate_node(node)
        if node.type in _LITERALS and not _MEANINGFUL.search(raw := read_text(node)):
            return [ShellWord(raw[:LONGEST], start, end, raw=raw)]
        found = self._expand_several(node)
        if found is not None:
            return found[:MOST]
        got, soft = self.read_value(node)
        if "{" in read_text(node) and (braced := expand_braces(read_text(node))):
            return [ShellWord(each, start, end, soft=soft, raw=read_text(node)) for each in braced]
        quoted = node.type in ("string", "raw_string", "ansi_c_string")
        bare = node.type in ("simple_expansion", "expansion", "command_substitution")
        made = ShellWord(got[:LONGEST], start, end, quoted, soft, bare and got == UNKNOWN, read_text(node))
        return list(_split_word(made)) if bare and got != UNKNOWN else [made]

    def read_word(self, node: Node) -> ShellWord:
        """Return an argument as one word, without field splitting."""
        start, end = self.locate_node(node)
        got, soft = self.read_value(node)
        return ShellWord(got[:LONGEST], start, end, node.type in ("string", "raw_string"), soft, raw=read_text(node))

    def read_cut_word(self, before: ShellWord, node: Node) -> ShellWord:
        """Return the word of which the grammar cuts off NAME/ behind a $: a/$NAME/ at the end of a continued line."""
        _start, end = self.locate_node(node)
        cut = _CUT_NAME.match(read_text(node))
        name = cut[0] if cut else ""
        rest = read_text(node)[len(name) :]
        self._record_use(name, node, guarded=False, quoted=False)
        value = self.state.find_value(name)
        text = before.text.removesuffix("$") + (value.word.text if value else UNKNOWN) + _drop_backslashes(rest)
        return replace(before, text=text[:LONGEST], end=end, raw=before.raw + read_text(node))

    def _expand_several(self, node: Node) -> list[ShellWord] | None:
        """The words of ${array[@]}, "$@", or an unquoted variable with several words; None for anything else."""
        inner = node
        if node.type == "string" and node.named_child_count == 1:
            only = node.named_children[0]
            if only.start_byte == node.start_byte + 1 and only.end_byte == node.end_byte - 1:
                inner = only
        if inner.type not in ("expansion", "simple_expansion"):
            return None
        raw, (start, end) = read_text(inner), self.locate_node(node)
        if raw in ("$@", "$*", "${@}", "${*}"):
            got = self.state.arguments
            return list(got) if got is not None else [self._make_unknown_words(start, end, raw)]
        match = _EXPANSION.fullmatch(raw)
        name = match[3] if match else raw[1:]
        if match and name in "@*" and not match[2]:
            got = self.state.arguments
            cut = re.fullmatch(r":(\d{1,3})", match[5])
            return (
                list(got[int(cut[1]) - 1 :])
                if got is not None and cut and cut[1] != "0"
                else [self._make_unknown_words(start, end, raw)]
            )
        value = self.state.find_value(name)
        if match and match[4] in ("[@]", "[*]") and not (match[1] or match[2]):
            self._record_use(name, inner, guarded=match[5].startswith(_GUARDS), quoted=inner is not node)
            if value is not None and value.array is not None and not match[5]:
                return list(value.array)
            return [self._make_unknown_words(start, end, raw)]
        if inner is node and value is not None and value.array is None and (raw[1] != "{" or (match and not match[5])):
            self._record_use(name, inner, guarded=False, quoted=False)
            return self._split_variable(value.word, ShellWord("", start, end, raw=raw))
        return None

    def _make_unknown_words(self, start: int, end: int, raw: str) -> ShellWord:
        """An unknown number of words."""
        return ShellWord(UNKNOWN, start, end, many=True, raw=raw)

    def _split_variable(self, value: ShellWord, site: ShellWord) -> list[ShellWord]:
        """The words of an unquoted variable, at its place in the script."""
        parts = value.text.split()
        if not value.is_known:
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
            found.append(ShellWord(part, value.start + hit, value.start + base, soft=value.soft, many=part == UNKNOWN))
        return found[:MOST]

    def read_value(self, node: Node, depth: int = 0) -> tuple[str, bool]:
        """Return the text, UNKNOWN if it is not known, and whether it contains a default."""
        if depth > DEPTH:
            return UNKNOWN, False
        kind = node.type
        if kind in _LITERALS:
            return _drop_backslashes(read_text(node)), False
        if kind == "raw_string":
            return read_text(node)[1:-1], False
        if kind == "ansi_c_string":
            return read_text(node)[2:-1].replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'"), False
        if kind in ("string", "translated_string"):
            return self._join_children(node, 1 if kind == "string" else 2, 1, depth, quoted=True)
        if kind in ("concatenation", "command_name", "heredoc_body"):
            return self._join_children(node, 0, 0, depth, quoted=kind == "heredoc_body")
        if kind == "simple_expansion":
            return self._read_simple_expansion(node)
        if kind == "expansion":
            return self._read_expansion(node, depth)
        if kind == "command_substitution" and read_text(node).lstrip().startswith("$(("):
            got = self._evaluate_arithmetic(node)  # the grammar knows no arithmetic in here-documents
            if got != UNKNOWN:
                return got, False
        if kind in ("command_substitution", "process_substitution"):
            output = self.inner(node)
            return (output if kind == "command_substitution" else UNKNOWN), False
        if kind == "arithmetic_expansion":
            return self._evaluate_arithmetic(node), False
        if kind == "brace_expression":
            return read_text(node), False
        return (
            (read_text(node), False) if node.child_count == 0 else self._join_children(node, 0, 0, depth, quoted=False)
        )

    def _join_children(self, node: Node, head: int, tail: int, depth: int, quoted: bool) -> tuple[str, bool]:
        """The children, and the text that the grammar leaves out between them."""
        raw, base = node.text or b"", node.start_byte
        parts, soft, done = [], False, base + head
        for child in node.named_children:
            if child.start_byte < done:
                continue
            parts.append(
                _unquote_literal(raw[done - base : child.start_byte + count_leading_blanks(child) - base], quoted)
            )
            if quoted and child.type == "string_content":
                got, more = _unquote_literal(child.text or b"", quoted), False
            else:
                got, more = self.read_value(child, depth + 1)
            parts.append(got)
            soft, done = soft or more, child.end_byte
        parts.append(_unquote_literal(raw[done - base : len(raw) - tail], quoted))
        return "".join(parts)[: LONGEST + 1], soft

    def _read_simple_expansion(self, node: Node) -> tuple[str, bool]:
        name = read_text(node)[count_leading_blanks(node) + 1 :]
        if not name.strip() or name != name.strip():  # "$ pip": a prompt
            return UNKNOWN, False
        if name.isdigit() or name in _SPECIAL:
            return self._read_argument(name), False
        self._record_use(name, node, guarded=False, quoted=node.parent is not None and node.parent.type == "string")
        value = self.state.find_value(name)
        return (value.word.text, value.word.soft) if value else (UNKNOWN, False)

    def _read_argument(self, name: str) -> str:
        got = self.state.arguments
        if name == "0":
            return self.state.surroundings.script or UNKNOWN
        if name.isdigit() and got is not None:
            return got[int(name) - 1].text if int(name) <= len(got) else ""
        return UNKNOWN

    def _read_expansion(self, node: Node, depth: int) -> tuple[str, bool]:
        match = _EXPANSION.fullmatch(read_text(node)[count_leading_blanks(node) :])
        if not match:
            return UNKNOWN, False
        indirect, count, name, index, rest = match.groups()
        guard = next((each for each in _GUARDS if rest.startswith(each)), "")
        if name.isdigit() or name in _SPECIAL:
            got, soft = self._read_argument(name), False
        else:
            self._record_use(name, node, bool(guard), node.parent is not None and node.parent.type == "string")
            item = self._find_item(name, index)
            got, soft = (item.text, item.soft) if item is not None else (UNKNOWN, False)
        if guard in ("-", ":-", "=", ":="):
            return self._read_default(node, name, guard, got, soft, depth)
        for child in node.named_children:  # ${x:+...$(...)...}: the inner command runs too
            if child.type in ("command_substitution", "expansion", "simple_expansion", "string", "concatenation"):
                self.read_value(child, depth + 1)
        if count and not rest:
            return self._read_length(name, index), soft
        if not (indirect or count or guard) and (trimmed := trim_value(got, rest)) is not None:
            return trimmed, soft
        if indirect or count or (rest and guard not in (":?", "?")):
            return UNKNOWN, soft
        return got, soft

    def _find_item(self, name: str, index: str | None) -> ShellWord | None:
        """The value of a variable, or of one item of an array: ${name[0]}, ${name[i]}; None if unknown."""
        value = self.state.find_value(name)
        if value is None or index is None:
            return None if value is None else value.word
        number = self._evaluate_text(index[1:-1])
        items = (value.word,) if value.array is None else value.array
        if number is None or any(word.many for word in (items[number:] if number < 0 else items[: number + 1])):
            return None
        return items[number] if -len(items) <= number < len(items) else ShellWord("", value.word.start, value.word.end)

    def _read_length(self, name: str, index: str | None) -> str:
        """The value of ${#name[@]} or ${#name}."""
        value = self.state.find_value(name)
        if value is None or (index and value.array is None):
            return UNKNOWN
        if index in ("[@]", "[*]") and value.array is not None:
            return UNKNOWN if any(word.many for word in value.array) else str(len(value.array))
        return str(len(value.word.text)) if value.word.is_known and not index else UNKNOWN

    def _read_default(self, node: Node, name: str, guard: str, got: str, soft: bool, depth: int) -> tuple[str, bool]:
        behind = [child for child in node.named_children if child.type != "variable_name"]
        given, _ = self._read_guard_value(node, behind, guard, depth)
        bound = self.state.find_value(name) is not None
        if "=" in guard and not bound:
            start, end = self.locate_node(node)
            self.state.assign_value(name, ShellValue(ShellWord(given, start, end, soft=True)))
        if bound and got:
            return got, soft
        return given, True

    def _read_guard_value(self, node: Node, behind: list[Node], guard: str, depth: int) -> tuple[str, bool]:
        """The value after the operator of ${name:-value} and similar."""
        parts = []
        for child in behind:
            if child.type in ("special_variable_name", "subscript"):
                continue
            parts.append(self.read_value(child, depth + 1)[0])
        if parts:
            return "".join(parts), True
        raw = read_text(node)
        found = raw[:-1].partition(guard)[2]
        return (found if "$" not in found and "`" not in found else UNKNOWN), True

    def _evaluate_arithmetic(self, node: Node) -> str:
        """The value of $((...)) with whole numbers; anything else is unknown."""
        raw = read_text(node).lstrip()
        inner = raw[3:-2] if raw.startswith("$((") else raw[2:-1]
        for name in _NAME_IN_SUM.findall(inner):
            self._record_use(name[0] or name[1], node, guarded=True, quoted=True)
        return str(found) if (found := self._evaluate_text(inner)) is not None else UNKNOWN

    def _evaluate_text(self, text: str) -> int | None:
        """The value of arithmetic with variables, None if unknown."""

        def fill(match: re.Match[str]) -> str:
            value = self.state.find_value(match[1] or match[2])
            return value.word.text if value else UNKNOWN

        return evaluate_sum(_NAME_IN_SUM.sub(fill, text))

    def _record_use(self, name: str, node: Node, guarded: bool, quoted: bool) -> None:
        start, end = self.locate_node(node)
        self.uses.append(VariableUse(name, start, end, name in self.state.values, guarded or self.tested, quoted))


def is_cut_name(before: Node | None, node: Node) -> bool:
    """Whether the grammar cut a word behind a $, and this node is the rest."""
    if before is None or before.type != "concatenation" or node.type != "word" or before.end_byte != node.start_byte:
        return False
    return before.children[-1].type == "$" and _CUT_NAME.match(read_text(node)) is not None


def expand_braces(raw: str) -> list[str]:
    """Return the words of a{b,c} and a{0..7}; empty without braces, or if there are too many."""
    found = [raw]
    while any(_BRACES.search(each) for each in found) and len(found) < MOST and re.fullmatch(r"[^$`'\"\\\s]*", raw):
        found = [more for each in found for more in _expand_first_braces(each)]
    return [each for each in found if each][:MOST] if found != [raw] else []


def _expand_first_braces(word: str) -> list[str]:
    """Expand the first pair of braces."""
    match = _BRACES.search(word)
    if match is None:
        return [word]
    ends = match[1], match[2]
    step = 1 if not ends[0] or int(ends[1]) >= int(ends[0]) else -1
    inner = map(str, range(int(ends[0]), int(ends[1]) + step, step)) if ends[0] else match[3].split(",")
    return [word[: match.start()] + each + word[match.end() :] for each in inner]


def evaluate_sum(sum_: str) -> int | None:
    """Return the value of an expression with whole numbers."""
    if not _SUM.fullmatch(sum_):
        return None
    try:
        return _evaluate_node(ast.parse(sum_.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, KeyError, OverflowError):
        return None


def _evaluate_node(node: ast.AST) -> int:
    if isinstance(node, ast.BinOp):
        found = _OPERATORS[type(node.op)](_evaluate_node(node.left), _evaluate_node(node.right))
        if abs(found) > 1 << 62:
            raise OverflowError
        return found
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate_node(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError


def _unquote_literal(raw: bytes, quoted: bool) -> str:
    found = raw.decode("utf-8", "replace")
    return (
        re.sub(r"\\([\\\"$`\n])", lambda m: "" if m[1] == "\n" else m[1], found) if quoted else _drop_backslashes(found)
    )


def _drop_backslashes(raw: str) -> str:
    return _BACKSLASH.sub(lambda m: "" if m[1] == "\n" else m[1], raw) if "\\" in raw else raw


def _split_word(word: ShellWord) -> Iterator[ShellWord]:
    for part in word.text.split():
        yield replace(word, text=part, many=part == UNKNOWN)
