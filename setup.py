"""Add the compiled catalogues and the packed tables while envcheck is built, and leave out what nobody reads in the
installed code: comments, docstrings that nothing prints, types that no user's code sees, wide indents; all else is in
setup.cfg."""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PACKAGES = ("envcheck", "installers", "launch")  # those with tables
LEFT_OUT = ROOT / "envcheck" / "cli" / "docs"
PROGRAMS = "launch/programs/"  # each prints its docstring as its help
# Commands and checks print docstrings of their functions, and checks of a site are written against these of the core.
PRINTING = (
    "envcheck/checks/*",
    "envcheck/cli/commands/*",
    "envcheck/cli/main.py",
    "envcheck/core/check.py",
    "envcheck/core/findings.py",
    "envcheck/core/model.py",
    "envcheck/core/simulate/*",
    "envcheck/core/vendor.py",
    "envcheck/job/requirements/*",
    "envcheck/vendors/*/checks*",
)
# What checks of a site, and programs that read vendor tools, are written against; the other packages are no library.
TYPED = ("envcheck/core/", "probes/")


class BuildWithGeneratedFiles(build_py):
    def run(self) -> None:
        sys.path.insert(0, str(ROOT))
        import tomli

        from envcheck.cli.message_catalogue import compile_catalogues
        from envcheck.core import table_pack

        compile_catalogues()
        super().run()
        if not self.editable_mode:
            for name in PACKAGES:
                tables = [path for path in (ROOT / name).rglob("*.toml") if path.parent != LEFT_OUT]
                packed = Path(self.build_lib) / name / table_pack.NAME
                packed.write_bytes(table_pack.pack_tables(ROOT, tables, tomli.loads))
            for path in Path(self.build_lib).rglob("*.py"):
                name = path.relative_to(self.build_lib).as_posix()
                if not name.startswith(PROGRAMS):
                    text = blank_inner_text(path.read_text(encoding="utf-8"), is_printed(name))
                    text = drop_inner_types(text, keeps_public=name.startswith(TYPED))
                    path.write_text(narrow_indents(text), encoding="utf-8")


def is_printed(name: str) -> bool:
    """Return whether something prints docstrings of the public functions in this file."""
    return any(fnmatch(name, pattern) for pattern in PRINTING)


def blank_inner_text(source: str, prints: bool) -> str:
    """Return the code without its comments and docstrings, which are for readers of the repository; each line keeps its
    number.  Those of classes and public functions stay where something prints them."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        is_public = not isinstance(node, ast.Module) and (not node.name.startswith("_") or node.name.endswith("__"))
        if not (prints and is_public) and ast.get_docstring(node) is not None:
            text = node.body[0]
            end = text.end_lineno or text.lineno
            left = " " * text.col_offset + '""' if len(node.body) == 1 else ""
            lines[text.lineno - 1 : end] = [left, *[""] * (end - text.lineno)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines)


def drop_inner_types(source: str, keeps_public: bool) -> str:
    """Return the code without types of local variables, and of arguments and results of functions; those of public
    functions may stay."""
    lines = [line.encode() for line in source.split("\n")]  # columns of the tree are of bytes
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    found = {  # line, first and last column
        (local.lineno - 1, local.target.end_col_offset or 0, local.annotation.end_col_offset)
        for node in functions
        for local in list_local_types(node)
    }
    for node in functions:
        if keeps_public and (not node.name.startswith("_") or node.name.endswith("__")):
            continue
        given = node.args
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if each and each.annotation and each.annotation.end_lineno == each.lineno:
                begin = each.col_offset + len(each.arg.encode())
                found.add((each.lineno - 1, begin, each.annotation.end_col_offset))
        result = node.returns
        if result and result.end_lineno == result.lineno:
            begin = lines[result.lineno - 1].rindex(b"->", 0, result.col_offset)
            found.add((result.lineno - 1, begin, result.end_col_offset))
    for row, begin, end in sorted(found, reverse=True):
        lines[row] = lines[row][:begin].rstrip() + lines[row][end or 0 :]
    return b"\n".join(lines).decode()


def list_local_types(node: ast.AST) -> Iterator[ast.AnnAssign]:
    """Yield the variables of a function that have a type on one line and a value; none of a class in it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.AnnAssign(target=ast.Name(), value=ast.expr(), annotation=kind) if kind.end_lineno == child.lineno:
                yield child
        if not isinstance(child, ast.ClassDef):
            yield from list_local_types(child)


def narrow_indents(source: str) -> str:
    """Return the code with one blank for each level of indents, and none at the beginning of continued lines."""
    lines = source.split("\n")
    level = depth = seen = 0  # of blocks, of brackets; the last line whose beginning was read
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT):
            level += 1 if token.type == tokenize.INDENT else -1
            continue
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
            continue
        row = token.start[0]
        if row > seen:
            lines[row - 1] = " " * (0 if depth else level) + lines[row - 1].lstrip(" ")
        seen = max(seen, token.end[0])  # the other lines of a text are its content
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
    return "\n".join(lines)


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithGeneratedFiles})
