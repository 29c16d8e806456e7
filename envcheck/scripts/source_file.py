"""Read a file of bounded size and split it into blocks: a script or configuration is one, a document has several."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.lint.script_model import SourceBlock, SourceFile
from envcheck.core.messages import _
from envcheck.scripts.vendor_words import DEVICE_TOOLS

LIMIT = 1 << 20  # bytes; the longest launch script seen has 40 kB
_CONFIGS = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_DOCKERFILE = re.compile(r"(?i)(?:.{0,250}[.-])?(?:docker|container)file(?:[.-].{0,250})?")
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
_MARKED = (".md", ".markdown", ".rst")  # documents whose blocks are marked
_DOCUMENTS = {".md", ".markdown", ".rst", ".txt"}
_FENCE = re.compile(rb"^([ \t>]*)(`{3,}|~{3,})[ \t]*([\w+-]*)")
_DIRECTIVE = re.compile(rb"^([ \t]*)\.\. (?:code-block|code|sourcecode)::[ \t]*([\w-]*)(?:(?<=[\w-])[ \t]+)?\r?$")
_PROMPT = re.compile(rb"^(?:\(\S+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[:~/ \w.\]-]*[#$]|\$|>>>)[ \t]+")
_SHELLS = {b"bash", b"sh", b"shell", b"zsh", b"console", b"shell-session", b"bat", b"terminal"}
_LANGUAGES = {
    **dict.fromkeys(_SHELLS, "bash"),
    b"yaml": "yaml",
    b"yml": "yaml",
    b"json": "json",
    b"dockerfile": "dockerfile",
}
# Beginnings of unlabelled blocks in a document that are shell commands.
_COMMANDS = (
    rb"(?:sudo|docker|podman|nerdctl|pip3?|python3?|conda|export|unset|cd|git|wget|curl|source|bash|sh|apt(?:-get)?|yum|"
    rb"torchrun|deepspeed|accelerate|swift|megatron|llamafactory-cli|erniekit|paddleformers-cli|srun|sbatch|mpirun|mkdir|"
    rb"cat|echo|rm|set|nohup|[A-Z_]{3,}=\S|" + "|".join(map(re.escape, DEVICE_TOOLS)).encode() + rb")"
)
# Signs of a tool's output, which ends the commands of a block: tables, progress bars, log lines.
_ANSWER = re.compile(
    rb"\s*(?=\S)"
    rb"(?:\+[-=+]{6,}|\|.*\|\s*$|[|+]?[-=]{8,}[|+]|\[(?:INFO|WARN|ERROR|\d)|\d{4}-\d\d-\d\d[ T]|\.\.\.\s*$|.*\d%\|)"
)
_SHELLISH = re.compile(rb"^[^\S\n]*(?:#!.*\bsh\b|" + _COMMANDS + rb"(?:\s|$))", re.MULTILINE)


def read_source(name: str) -> SourceFile:
    """Return the file, or standard input for "-"; UsageError unless it is text of at most LIMIT bytes."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(LIMIT + 1)
        else:
            if not Path(name).is_file():
                words = (
                    _("{name} is a directory", name=name)
                    if Path(name).is_dir()
                    else _("{name} is not a file", name=name)
                    if Path(name).exists()
                    else _("{name} does not exist", name=name)
                )
                raise UsageError(
                    words,
                    _("specify a script, a YAML file, a document, or - for standard input"),
                )
            with Path(name).open("rb") as file:
                raw = file.read(LIMIT + 1)
    except OSError as err:
        words = _("cannot read {name}: {strerror}", name=name, strerror=describe_os_error(err))
        raise UsageError(words, _("specify a script that you can read")) from None
    except ValueError:
        raise UsageError(
            _("the file name contains a NUL byte"), _("specify a script, or - for standard input")
        ) from None
    return make_source(name, raw)


def make_source(name: str, raw: bytes) -> SourceFile:
    """Return the source of these bytes; UsageError if they are too many, or not UTF-8 text."""
    shown = _("standard input") if name == "-" else name
    if len(raw) > LIMIT:
        raise UsageError(
            _("{shown} is larger than {limit} kB", shown=shown, limit=LIMIT >> 10),
            _("specify a launch script; none is this large"),
        )
    if b"\0" in raw:
        raise UsageError(
            _("{shown} is not a text file: it contains a NUL byte", shown=shown),
            _("specify a script, a YAML file or a document"),
        )
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as err:
        words = _("{shown} is not valid UTF-8 at byte {start}", shown=shown, start=err.start + 1)
        raise UsageError(
            words, _("convert it with iconv -f GB18030 -t UTF-8, if it comes from an older Chinese editor")
        ) from None
    return SourceFile(name, raw)


def is_shell_command(name: str) -> bool:
    """Return whether a program of this name shows that a document's block is a shell script."""
    return re.fullmatch(_COMMANDS, name.encode()) is not None


def is_dockerfile(name: str) -> bool:
    """Return whether a file of this name is a Dockerfile."""
    return _DOCKERFILE.fullmatch(name) is not None


# Lines that trainers, launchers and Python print, and no script or configuration has.
_PRINTED = re.compile(
    rb"^(?:\S{1,40}[|:][ \t]*)?(?:\[?\(?\d{4}-\d\d-\d\d[ T_]\d\d:\d\d|\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|rank\d+)\b|"
    rb"[IWEF]\d{4} \d\d:\d\d|Traceback \(most recent call last\)|  File \"[^\"\n]+\", line \d+|"
    rb"\{'(?:loss|eval_loss)': |"
    rb"[^\n]{0,80}(?:\d+it/s\]|s/it\]|\| *\d+/\d+ \[)|(?: \[[^\]\n]*\])? *iteration +\d+/|[A-Za-z]+Error: |\*{20,})"
)
_SAMPLE = 400  # lines of a file that are compared with them
_LEAST_PRINTED = 0.2  # of the lines: half of an output are lines without a sign


def is_program_output(raw: bytes) -> bool:
    """Return whether a text is what a training printed: its log."""
    lines = [line for line in raw[: 1 << 17].splitlines() if line.strip()][:_SAMPLE]
    printed = sum(bool(_PRINTED.match(line)) for line in lines)
    return printed > 0 and printed >= _LEAST_PRINTED * len(lines) and not raw.startswith(b"#!")


def detect_kind(source: SourceFile, asked: str = "") -> str:
    """Return bash, yaml, json, dockerfile or document: as requested, or by file extension, or by content."""
    suffix = Path(source.name).suffix.lower()
    if asked:
        return asked
    if suffix in _CONFIGS:
        return _CONFIGS[suffix]
    if is_dockerfile(Path(source.name).name) and suffix not in _DOCUMENTS:
        return "dockerfile"
    head = source.raw.lstrip(b"\xef\xbb\xbf \t\r\n")
    if suffix not in (*_SCRIPTS, *_MARKED) and is_program_output(source.raw):
        shown = _("standard input") if source.name == "-" else source.name
        words = _("{name} is the output of a program, which lint does not check", name=shown)
        raise UsageError(words, _("run envcheck explain {name}", name=source.name))
    if suffix in _DOCUMENTS:
        return "document"
    if suffix in (".py", ".ipynb") or re.match(rb"#![^\n]{0,80}python", head):
        raise UsageError(
            _("{name} is Python, which lint does not check", name=source.name), _("specify the script that starts it")
        )
    if suffix in _SCRIPTS or head.startswith(b"#!"):
        return "bash"
    if head.startswith(b"{"):
        return "json"
    if re.match(rb"(?:(?:#[^\n]*|ARG [^\n]*|\r)?\n)*FROM [^\n]+", head):
        return "dockerfile"
    if re.search(rb"^ {0,3}(```|~~~)", source.raw, re.MULTILINE):
        return "document"
    keys = len(re.findall(rb"^[A-Za-z_][\w.-]*:(?:[ \t]|\r?$)", source.raw, re.MULTILINE))
    others = len(re.findall(rb"^(?![A-Za-z_][\w.-]*:(?:[ \t]|\r?$))[^#\s-]", source.raw, re.MULTILINE))
    return "yaml" if keys > 2 * others else "bash"


def split_blocks(source: SourceFile, asked: str = "") -> list[SourceBlock]:
    """Return the blocks in the order of the file."""
    kind = detect_kind(source, asked)
    if kind == "document":
        return _split_document(source)
    start = 3 if source.raw.startswith(b"\xef\xbb\xbf") else 0
    return [SourceBlock(kind, source.raw[start:], ((0, start),), whole=True)]


def _split_document(source: SourceFile) -> list[SourceBlock]:
    lines = source.raw.splitlines(keepends=True)
    found, number, offset = [], 0, 0
    while number < len(lines):
        for opens, body in (
            (_FENCE.match(lines[number]), _find_fence_end),
            (_DIRECTIVE.match(lines[number]), _find_indent_end),
        ):
            if opens:
                end, indent, after = body(lines, number, opens)
                block = _make_block(lines[number + 1 : end], offset + len(lines[number]), indent, opens)
                found += [block] if block else []
                offset += sum(map(len, lines[number:after]))
                number = after
                break
        else:
            offset += len(lines[number])
            number += 1
    return found


def _find_fence_end(lines: list[bytes], number: int, opens: re.Match[bytes]) -> tuple[int, int, int]:
    """The line of the closing fence, the indentation, and where the document continues."""
    mark = opens[2]
    for end in range(number + 1, len(lines)):
        closing = lines[end].strip(b" \t>\r\n")
        if closing.startswith(mark) and not closing.strip(mark[:1]):
            return end, len(opens[1]), end + 1
    return len(lines), len(opens[1]), len(lines)


def _find_indent_end(lines: list[bytes], number: int, opens: re.Match[bytes]) -> tuple[int, int, int]:
    """As `_find_fence_end`, for reStructuredText: everything indented further than the directive."""
    base, end = len(opens[1]), number + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip(b" \t")) > base):
        end += 1
    texts = [line for line in lines[number + 1 : end] if line.strip() and not line.lstrip().startswith(b":")]
    indent = min((len(line) - len(line.lstrip(b" \t")) for line in texts), default=0)
    return end, indent, end


def _make_block(lines: list[bytes], offset: int, indent: int, opens: re.Match[bytes]) -> SourceBlock | None:
    """The block without its indentation, if its language is supported."""
    parts: list[tuple[int, bytes]] = []
    for line in lines:
        cut = min(indent, len(line) - len(line.lstrip(b" \t>")))
        parts.append((offset + cut, line[cut:]))
        offset += len(line)
    language = opens.groups()[-1].lower()
    body = b"".join(part for _unused, part in parts)
    kind = _LANGUAGES.get(language) or ("bash" if not language and _SHELLISH.search(body) else "")
    console = kind == "bash" and bool(_PROMPT.match(body.lstrip()))
    root = re.match(rb"\s*# (?=\S[^\n]*\n(.+\n))", body) if not language else None
    if root and _ANSWER.match(root[1]):  # a root prompt, and a tool's output
        kind, parts = "bash", [(at + 2, part[2:]) for at, part in parts if part.startswith(b"# ")][:1]
    if console:
        parts = [(at + m.end(), part[m.end() :]) for at, part in parts if (m := _PROMPT.match(part))]
    elif kind == "bash":
        answer = next((i for i, (_unused, part) in enumerate(parts) if _ANSWER.match(part)), len(parts))
        parts = parts[:answer]
    if not kind or not body.strip():
        return None
    starts, total = [], 0
    for at, part in parts:
        starts.append((total, at))
        total += len(part)
    return SourceBlock(kind, b"".join(part for _unused, part in parts), tuple(starts), console=console)
