"""A Program as a /bin/sh script: it looks up its arguments and reads in what it says.  No second process to start."""

from __future__ import annotations

from envcheck.core.simulate.reply import Program, Reply

# Joins the files of the columns asked for; `$d` is where they lie.
_QUERY = r"""
fields='' format=''
for a in "$@"; do
  case $a in
  --query-gpu=*) fields=${a#*=} ;;
  --format=*) format=,${a#*=}, ;;
  esac
done
if [ -n "$fields" ]; then
  case $format in *,csv,*) ;; *) echo "ERROR: Missing --format=csv argument."; exit 2 ;; esac
  c=columns
  case $format in *,nounits,*) c=columns-nounits ;; esac
  set -f
  set --
  IFS=,
  for f in $fields; do
    f=${f# }
    case $f in '' | *[!a-zA-Z0-9._]*) known='' ;; *) known=$d/$c/$f ;; esac
    if [ ! -f "$known" ]; then printf 'Field "%s" is not a valid field to query.\n\n' "$f"; exit 2; fi
    set -- "$@" "$known"
  done
  unset IFS
  out=$(paste -d , "$@" | sed 's/,/, /g')
  case $format in *,noheader,*) out=$(printf '%s\n' "$out" | sed 1d) ;; esac
  @print@
  exit 0
fi
"""
_HEAD = ("#!/bin/sh", "# A stand-in written by `envcheck simulate`.", "# shellcheck disable=SC1090,SC1091")
_PRINT = {
    False: 'printf "%s\\n" "$out"',
    True: r'printf %s "$out" | head -c $((${#out} * 3 / 5))',
}


def script(program: Program) -> str:
    """The text of bin/NAME; its answers lie in ../answers/NAME, wherever the folder is moved."""
    if program.hang_s:
        return "\n".join([*_HEAD, f"exec sleep {program.hang_s}", ""])
    lines = [*_HEAD, f"d=${{0%/*}}/../answers/{program.name}"]
    if program.columns:
        lines.append(_QUERY.replace("@print@", _PRINT[program.truncated]))
    lines += ['f="$d/answer $*"', 'if [ -f "$f" ]; then . "$f"; fi', 'case "$*" in']
    lines += [f'{pattern}) . "$d/{n}" ;;' for n, (pattern, _) in enumerate(_cases(program))]
    return "\n".join([*lines, "esac", ""])


def answers(program: Program) -> dict[str, str]:
    """File below answers/NAME → text: what the script reads in, and the columns of a query."""
    files = {f"answer {arguments}": _said(reply) for arguments, reply in program.replies.items() if _plain(arguments)}
    files |= {str(n): _said(reply) for n, (_, reply) in enumerate(_cases(program))}
    for field, column in program.columns.items():
        files[f"columns/{field}"] = "\n".join([column.heading, *column.values]) + "\n"
        bare = [
            value if value.startswith("[") or column.heading[-1] != "]" else value.split()[0] for value in column.values
        ]
        files[f"columns-nounits/{field}"] = "\n".join([column.heading, *bare]) + "\n"
    return files


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(arguments: str) -> bool:
    """Whether they can be a part of a file's name, which the shell finds sooner than a line of a long `case`."""
    return "/" not in arguments and len(arguments.encode()) < 200


def _cases(program: Program) -> list[tuple[str, Reply]]:
    """Pattern and reply of the arguments that are no name, then of how arguments begin."""
    whole = [(quoted(arguments), reply) for arguments, reply in program.replies.items() if not _plain(arguments)]
    return whole + [(f"{quoted(prefix) if prefix else ''}*", reply) for prefix, reply in program.otherwise]


def _said(reply: Reply) -> str:
    errors = f"printf %s {quoted(reply.err)} >&2\n" if reply.err else ""
    return f"printf %s {quoted(reply.out)}\n{errors}exit {reply.status}\n"
