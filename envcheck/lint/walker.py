"""From the tree of a script to its commands: statements in their order, with what the shell holds at each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from envcheck.lint import nodes
from envcheck.lint.model import UNKNOWN, Assign, Block, Command, Heredoc, Redirect, Script, Use, Word
from envcheck.lint.nodes import DEPTH, text
from envcheck.lint.state import State, Value
from envcheck.lint.values import Reader

if TYPE_CHECKING:
    from tree_sitter import Node

REMOTE = ("docker", "podman", "nerdctl", "kubectl", "ssh", "pdsh")
COMMANDS = 20_000  # that are followed; one megabyte of `a;` has half a million
CALLS = 200  # of the script's own functions that are entered
_LOOPS = ("while_statement", "for_statement", "c_style_for_statement", "select_statement")
_STATEMENTS = ("program", "do_group", "compound_statement", "else_clause", "elif_clause", "case_item")
_VENDORS = re.compile(
    r"/(Ascend|ascend-toolkit|cann|nnal|corex|intel|conda|miniconda3?|anaconda3?)\b|set_?env|activate"
)
_OPTIONS = {"e": "errexit", "u": "nounset", "a": "allexport"}


class Walker:
    """Walks one block; `state` is that of the block before where they are parts of one session."""

    def __init__(self, block: Block, state: State, nested: int = 0) -> None:
        self.script, self.state, self.block = Script(block), state, block
        self.nested = nested
        self.bodies: dict[str, Node] = {}
        self.called: set[str] = set()
        self.calls = self.pipelines = 0
        self.inside = ""
        self.guarded = self.lenient = self.background = self.last = False
        self.branch = 0
        self.pipeline = 0

    def run(self) -> Script:
        root = nodes.root(self.block.raw)
        first = self.block.raw.split(b"\n", 1)[0]
        if re.match(rb"#!.*sh\s+-\w*e", first):
            self.state.shell.add("errexit")
        self.last = True
        self.walk(root, 0)
        for name in sorted(set(self.bodies) - self.called):
            self._enter(name, None)
        if root.has_error:
            self._errors(root, 0)
        return self.script

    def _errors(self, node: Node, depth: int) -> None:
        if node.type == "ERROR" or node.is_missing:
            self.script.errors.append(self._reader([]).at(node))
        elif depth < DEPTH:
            for child in node.children:
                if child.has_error or child.is_missing:
                    self._errors(child, depth + 1)

    def _reader(self, uses: list[Use], tested: bool = False) -> Reader:
        return Reader(self.block, self.state, self._substituted, uses, tested)

    def _substituted(self, node: Node) -> None:
        """A command substitution: a subshell whose status nobody looks at."""
        kept, self.state = self.state, self.state.copy()
        flags = self.guarded, self.last, self.pipeline
        self.guarded, self.last, self.pipeline = True, True, 0
        for child in node.named_children:
            self.walk(child, self.depth + 1)
        self.guarded, self.last, self.pipeline = flags
        self.state = kept

    depth = 0

    def walk(self, node: Node, depth: int) -> None:
        if depth > DEPTH or len(self.script.commands) >= COMMANDS:
            self.script.cut = True
            return
        kept, self.depth = self.depth, depth
        handler = getattr(self, f"_{node.type}", None)
        if handler is not None:
            handler(node, depth)
        elif node.type in _LOOPS:
            self._loop(node, depth)
        else:
            for child in node.named_children:
                self.walk(child, depth + 1)
        self.depth = kept

    def _comment(self, node: Node, depth: int) -> None:
        reader = self._reader([])
        self.script.comments.append((*reader.at(node), text(node)))

    # statements

    def _list(self, node: Node, depth: int) -> None:
        left, right = node.named_children[0], node.named_children[-1]
        operator = next((child.type for child in node.children if child.type in ("&&", "||")), "")
        flags = self.guarded, self.lenient
        self.guarded = True
        self.lenient = flags[1] or (operator == "||" and text(right).strip() in ("true", ":"))
        self.walk(left, depth + 1)
        self.guarded, self.lenient = flags
        before = self.state.copy()
        self.branch += 1
        self.walk(right, depth + 1)
        self.branch -= 1
        leaves = re.match(r"\s*\{?\s*(?:[^}]*[;\n]\s*)?(exit|return|die|exec)\b", text(right))
        if operator and not (operator == "&&" or leaves):
            self.state.merge([self.state, before])
        elif leaves:
            self.state = before

    def _negated_command(self, node: Node, depth: int) -> None:
        flag, self.guarded = self.guarded, True
        for child in node.named_children:
            self.walk(child, depth + 1)
        self.guarded = flag

    def _pipeline(self, node: Node, depth: int) -> None:
        self.pipelines += 1
        kept, flags = self.state, (self.pipeline, self.last)
        self.pipeline = self.pipelines
        parts = [child for child in node.named_children if child.type != "comment"]
        for part in parts:
            self.last, self.state = part is parts[-1], kept.copy()
            self.walk(part, depth + 1)
        self.pipeline, self.last = flags
        self.state = kept

    def _subshell(self, node: Node, depth: int) -> None:
        kept, self.state = self.state, self.state.copy()
        for child in node.named_children:
            self.walk(child, depth + 1)
        self.state = kept

    def _if_statement(self, node: Node, depth: int) -> None:
        self._tested(_before(node, "then"), depth)
        ends: list[State] = []
        start = self.state.copy()
        clauses: list[list[Node]] = [[]]
        for child in _after(node, "then"):
            if child.type in ("elif_clause", "else_clause"):
                clauses.append([child])
            elif clauses[-1] and clauses[-1][0].type.endswith("clause"):
                continue
            else:
                clauses[-1].append(child)
        for clause in clauses:
            self.state = start.copy()
            self.branch += 1
            for child in clause:
                self.walk(child, depth + 1)
            self.branch -= 1
            if not (clause and _leaves(clause[-1])):
                ends.append(self.state)
        if clauses[-1][:1] == [] or clauses[-1][0].type != "else_clause":
            ends.append(start)
        self.state = start if not ends else self.state
        if ends:
            self.state = ends[0]
            self.state.merge(ends)

    def _elif_clause(self, node: Node, depth: int) -> None:
        self._tested(_before(node, "then"), depth)
        for child in _after(node, "then"):
            self.walk(child, depth + 1)

    def _case_statement(self, node: Node, depth: int) -> None:
        reader = self._reader(self.script.uses, tested=True)
        start = self.state.copy()
        ends = [start]
        for child in node.named_children:
            if child.type == "case_item":
                self.state = start.copy()
                self.branch += 1
                for part in child.named_children[1:]:
                    self.walk(part, depth + 1)
                self.branch -= 1
                ends.append(self.state)
            elif child.type != "comment":
                self.script.tested.add(reader.value(child)[0])
        self.state = ends[-1]
        self.state.merge(ends)

    def _loop(self, node: Node, depth: int) -> None:
        before = self.state.copy()
        for name in _assigned(node) & set(self.state.values):  # the second time round it is another
            self.state.values[name] = self.state.values[name].unknown
        for child in node.named_children:
            if child.type == "variable_name":
                self._give(text(child), Value(Word(UNKNOWN, *self._reader([]).at(child))), child)
            elif child.type in ("do_group", "compound_statement"):
                self.branch += 1
                self.walk(child, depth + 1)
                self.branch -= 1
            elif child.type.endswith("command") or child.type in ("list", "pipeline", "redirected_statement"):
                self._tested([child], depth)
            else:
                for word in self._reader(self.script.uses).words(child):
                    del word
        self.state.merge([self.state, before])

    def _tested(self, conditions: Iterable[Node], depth: int) -> None:
        flag, self.guarded = self.guarded, True
        for child in conditions:
            self.walk(child, depth + 1)
        self.guarded = flag

    def _test_command(self, node: Node, depth: int) -> None:
        reader = self._reader(self.script.uses, tested=True)
        stack = list(node.named_children)
        while stack:
            child = stack.pop()
            if child.type.endswith("_expression"):
                stack += child.named_children
            else:
                self.script.tested.add(reader.value(child)[0])

    def _function_definition(self, node: Node, depth: int) -> None:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if name is not None and body is not None:
            self.script.functions.add(text(name))
            self.bodies[text(name)] = body

    def _enter(self, name: str, arguments: tuple[Word, ...] | None) -> None:
        """The body of a function, with what it is called with."""
        self.calls += 1
        self.called.add(name)
        if self.calls > CALLS or self.inside.count("/") > 3:
            return
        kept, self.state.arguments = self.state.arguments, arguments
        inside, self.inside = self.inside, f"{self.inside}/{name}"
        self.branch += arguments is None
        self.walk(self.bodies[name], self.depth + 1)
        self.branch -= arguments is None
        self.inside, self.state.arguments = inside, kept

    # variables

    def _variable_assignment(self, node: Node, depth: int) -> None:
        self._assign(node, self.script.uses, "allexport" in self.state.shell)

    def _assign(self, node: Node, uses: list[Use], exported: bool, prefix: bool = False) -> Assign:
        reader = self._reader(uses)
        target, given = node.child_by_field_name("name"), node.child_by_field_name("value")
        name = text(target).partition("[")[0] if target is not None else ""
        start, end = reader.at(node)
        adds, before = any(child.type == "+=" for child in node.children), self.state.values.get(name)
        if given is None:
            value = Value(Word("", start, end))
        elif given.type == "array":
            words = tuple(word for child in given.named_children for word in self._items(child, reader))
            old = before.array or () if adds and before else ()
            value = Value(Word(words[0].text if words else "", start, end), (*old, *words))
        else:
            value = Value(reader.word(given))
            if adds and before:
                joined = before.word.text + value.word.text
                value = Value(replace(value.word, text=joined, raw="", soft=before.word.soft or value.word.soft))
        if target is not None and target.type == "subscript":
            value = value.unknown
        assign = Assign(name, value.word, start, end, exported or name in self.state.exported, prefix)
        if not prefix:
            self._give(name, value, node)
            if exported:
                self.state.exported.add(name)
        self.script.assigns.append(assign)
        return assign

    def _items(self, node: Node, reader: Reader) -> list[Word]:
        return [] if node.type == "comment" else reader.words(node)

    def _give(self, name: str, value: Value, node: Node) -> None:
        self.state.values[name] = value
        self.script.names.add(name)

    def _declaration_command(self, node: Node, depth: int) -> None:
        word = node.children[0].type
        flags = "".join(text(child) for child in node.named_children if child.type == "word")
        exported = word == "export" or (word in ("declare", "typeset") and "x" in flags)
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child, self.script.uses, exported)
            elif child.type == "variable_name":
                self.script.names.add(text(child))
                if exported:
                    self._exported(text(child), child)
                elif word != "readonly":
                    self.state.values.setdefault(text(child), Value(Word("", *self._reader([]).at(child))))
            elif child.type not in ("comment", "word"):
                self._reader(self.script.uses).value(child)

    def _exported(self, name: str, node: Node) -> None:
        self.state.exported.add(name)
        value = self.state.values.get(name)
        if value is not None:
            self.script.assigns.append(Assign(name, value.word, *self._reader([]).at(node), True))

    def _unset_command(self, node: Node, depth: int) -> None:
        for child in node.named_children:
            start, end = self._reader([]).at(child)
            if not text(child).startswith("-"):
                self.script.unset.append(Word(text(child), start, end))
                self.state.values.pop(text(child), None)
                self.state.exported.discard(text(child))

    # commands

    def _redirected_statement(self, node: Node, depth: int) -> None:
        redirects, heredocs, later = self._redirects(node)
        body = node.child_by_field_name("body")
        if body is not None and body.type == "command":
            self._command(body, depth, redirects, heredocs)
        elif body is not None:
            self.walk(body, depth + 1)
        for child in later:
            self.walk(child, depth + 1)

    def _redirects(self, node: Node) -> tuple[list[Redirect], list[Heredoc], list[Node]]:
        found, heredocs, later = [], [], []
        for child in node.named_children:
            if child.type == "file_redirect":
                found.append(self._redirect(child))
            elif child.type == "heredoc_redirect":
                inner = [part for part in child.named_children if part.type == "file_redirect"]
                later += [part for part in child.named_children if part.type in ("pipeline", "list", "command")]
                found += [self._redirect(part) for part in inner]
                heredocs.append(child)
        out = next((each.target for each in found if ">" in each.text and each.target), None)
        return found, [each for child in heredocs for each in self._heredoc(child, out)], later

    def _redirect(self, node: Node) -> Redirect:
        reader = self._reader(self.script.uses)
        target = node.child_by_field_name("destination")
        return Redirect(text(node), *reader.at(node), reader.word(target) if target is not None else None)

    def _heredoc(self, node: Node, file: Word | None) -> list[Heredoc]:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        literal = start is not None and text(start)[:1] in "'\"\\"
        found = []
        for child in node.named_children:
            if child.type == "heredoc_body":
                own = (child.start_byte, child.end_byte)
                if not literal:
                    self._reader(self.script.uses).value(child)
                found.append(Heredoc(self.block.at(own[0]), self.block.at(own[1]), own, file, literal))
        return found

    def _command(
        self, node: Node, depth: int, redirects: Iterable[Redirect] = (), heredocs: Iterable[Heredoc] = ()
    ) -> None:
        uses: list[Use] = []
        reader, words, prefixes = self._reader(uses), [], []
        own, more, _ = self._redirects(node)
        for child in node.named_children:
            if child.type == "variable_assignment":
                prefixes.append(self._assign(child, uses, True, prefix=True))
            elif child.type == "command_name":
                words += reader.words(child.named_children[0] if child.named_child_count == 1 else child)
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment"):
                words += reader.words(child)
            elif child.type == "herestring_redirect":
                reader.value(child)
        start, end = reader.at(node)
        background = node.next_sibling is not None and node.next_sibling.type == "&"
        parent = node.parent
        if parent is not None and parent.type == "redirected_statement" and parent.next_sibling is not None:
            background = background or parent.next_sibling.type == "&"
        command = Command(
            words=tuple(words[:4096]),
            start=start,
            end=end,
            environment={**self.state.environment(), **{each.name: each.word for each in prefixes}},
            uses=tuple(uses),
            redirects=(*redirects, *own),
            heredocs=(*heredocs, *more),
            pipeline=self.pipeline,
            last_of_pipe=self.last or not self.pipeline,
            shell=frozenset(self.state.shell),
            guarded=self.guarded,
            lenient=self.lenient,
            background=background,
            function=self.inside.rpartition("/")[2],
            branch=self.branch > 0,
            cwd=self.state.cwd,
            order=len(self.script.commands),
        )
        self.script.uses += uses
        if words:
            self.script.commands.append(command)
            self._effects(command)
            self._shell(command)

    def _effects(self, command: Command) -> None:
        """What a command does to the shell itself."""
        name, texts = command.name, command.texts()
        if name in self.bodies and self.inside.count("/") < 4:
            self._enter(name, command.words[1:])
            self.script.tested.update(texts[1:])
        elif name in ("test", "["):
            self.script.tested.update(texts[1:])
        elif name == "set":
            self._set(texts[1:])
        elif name == "cd" and len(texts) > 1:
            self.state.cwd = _joined_path(self.state.cwd, next((t for t in texts[1:] if t != "--"), ""))
        elif name in ("read", "mapfile", "readarray", "getopts", "printf", "let"):
            self._read_into(name, command.words[1:])
        elif name == "shift" and self.state.arguments is not None:
            count = texts[1] if len(texts) > 1 else "1"
            self.state.arguments = self.state.arguments[int(count) :] if count.isdigit() and len(count) < 5 else None
        elif name == "eval" or (name in ("source", ".") and not _VENDORS.search(" ".join(texts[1:]))):
            self.script.opaque = True

    def _shell(self, command: Command) -> None:
        """bash -c '...', also behind docker exec or srun: its commands are the script's, as far as rules go."""
        texts = command.texts()
        for number, text_ in enumerate(texts[:-2]):
            raw = command.words[number + 2].raw
            told = text_.rpartition("/")[2] in ("bash", "sh", "zsh") and re.fullmatch(r"-\w*c", texts[number + 1])
            over = texts[0] == "ssh" and number == len(texts) - 3 and " " in raw
            if not told and not over:
                continue
            if self.nested > 2 or len(raw) < 3 or raw[0] not in "'\"" or raw[-1] != raw[0]:
                return
            block = Block("bash", raw[1:-1].encode(), ((0, command.words[number + 2].start + 1),))
            inner = Walker(block, self.state.copy(), self.nested + 1)
            for each in inner.run().commands:
                piped = each.pipeline != 0
                made = replace(
                    each,
                    heredocs=(),
                    uses=(),
                    elsewhere=texts[0].rpartition("/")[2] in REMOTE,
                    order=len(self.script.commands),
                    pipeline=-each.pipeline if piped else command.pipeline,
                    last_of_pipe=each.last_of_pipe if piped else command.last_of_pipe,
                )
                self.script.commands.append(made)
            self.script.names |= inner.script.names
            return

    def _set(self, words: list[str]) -> None:
        for number, word in enumerate(words):
            change = self.state.shell.add if word[:1] == "-" else self.state.shell.discard
            if word[:1] not in "+-" or word == "--":
                continue
            for letter, option in _OPTIONS.items():
                if letter in word[1:]:
                    change(option)
            if word[1:].endswith("o") and number + 1 < len(words):
                change(words[number + 1])

    def _read_into(self, name: str, words: Iterable[Word]) -> None:
        before = ""
        for word in words:
            if (name in ("read", "mapfile", "readarray") or before == "-v" or name in ("getopts", "let")) and re.match(
                r"[A-Za-z_]\w*", word.text
            ):
                found = re.match(r"[A-Za-z_]\w*", word.text)
                if found:
                    self.state.values[found[0]] = Value(Word(UNKNOWN, word.start, word.end))
                    self.script.names.add(found[0])
            before = word.text


def _assigned(node: Node) -> set[str]:
    """The names that are given values somewhere inside."""
    found: set[str] = set()
    stack = [node]
    while stack and len(found) < COMMANDS:
        child = stack.pop()
        if child.type == "variable_assignment":
            name = child.child_by_field_name("name")
            found.add(text(name).partition("[")[0] if name is not None else "")
        stack += child.named_children
    return found


def _before(node: Node, word: str) -> list[Node]:
    cut = next((i for i, child in enumerate(node.children) if child.type == word), 0)
    return [child for child in node.children[:cut] if child.is_named]


def _after(node: Node, word: str) -> list[Node]:
    cut = next((i for i, child in enumerate(node.children) if child.type == word), 0)
    return [child for child in node.children[cut:] if child.is_named]


def _leaves(node: Node) -> bool:
    """The last statement of a branch ends the script or the function."""
    return bool(re.search(r"(?:^|[;\n\s])(?:exit|return)\b[^\n;]*[;\s]*(?:fi)?\s*$", text(node)))


def _joined_path(cwd: str, target: str) -> str:
    if UNKNOWN in target or UNKNOWN in cwd or target in ("", "-") or target.startswith("~"):
        return UNKNOWN
    return str(PurePosixPath(cwd) / target) if cwd or not target.startswith("/") else target


def walk(blocks: Iterable[Block]) -> list[Script]:
    """The scripts of the blocks; one that is a file of its own begins anew, the others share a session."""
    session, found = State(), []
    for block in blocks:
        if block.kind == "bash":
            walker = Walker(block, State() if block.script else session)
            found.append(walker.run())
            if not block.script:
                session = walker.state
                session.shell.clear()
    return found
