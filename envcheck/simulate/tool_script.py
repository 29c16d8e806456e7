"""Render a simulated program as a /bin/sh script: it looks up its arguments and prints a file, without other
processes.
"""

from __future__ import annotations

from envcheck.core.simulate.reply import ProgramReply, SimulatedProgram

# Joins the files of the requested columns; `$d` is their folder.
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


def render_script(program: SimulatedProgram) -> str:
    """Return the text of bin/NAME; its answers are in ../answers/NAME, so that the folder can be moved."""
    if program.hang_s:
        return "\n".join([*_HEAD, f"exec sleep {program.hang_s}", ""])
    lines = [*_HEAD, f"d=${{0%/*}}/../answers/{program.name}"]
    if program.columns:
        lines.append(_QUERY.replace("@print@", _PRINT[program.truncated]))
    lines += ['f="$d/answer $*"', 'if [ -f "$f" ]; then . "$f"; fi', 'case "$*" in']
    lines += [f'{pattern}) . "$d/{n}" ;;' for n, (pattern, _) in enumerate(_list_cases(program))]
    return "\n".join([*lines, "esac", ""])


def render_answers(program: SimulatedProgram) -> dict[str, str]:
    """Return text by file below answers/NAME: replies, and the columns of a query."""
    files = {
        f"answer {arguments}": _render_reply(reply)
        for arguments, reply in program.replies.items()
        if _is_plain_name(arguments)
    }
    files |= {str(n): _render_reply(reply) for n, (_, reply) in enumerate(_list_cases(program))}
    for field, column in program.columns.items():
        files[f"columns/{field}"] = "\n".join([column.heading, *column.values]) + "\n"
        bare = [
            value if value.startswith("[") or column.heading[-1] != "]" else value.split()[0] for value in column.values
        ]
        files[f"columns-nounits/{field}"] = "\n".join([column.heading, *bare]) + "\n"
    return files


def quote_text(text: str) -> str:
    """Return the text quoted for sh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _is_plain_name(arguments: str) -> bool:
    """Return whether the arguments can be part of a file name: faster for sh than a line of a long `case`."""
    return "/" not in arguments and len(arguments.encode()) < 200


def _list_cases(program: SimulatedProgram) -> list[tuple[str, ProgramReply]]:
    """Return pattern and reply of arguments that cannot be file names, then of prefixes of arguments."""
    whole = [
        (quote_text(arguments), reply) for arguments, reply in program.replies.items() if not _is_plain_name(arguments)
    ]
    return whole + [(f"{quote_text(prefix) if prefix else ''}*", reply) for prefix, reply in program.otherwise]


def _render_reply(reply: ProgramReply) -> str:
    errors = f"printf %s {quote_text(reply.err)} >&2\n" if reply.err else ""
    return f"printf %s {quote_text(reply.out)}\n{errors}exit {reply.status}\n"
