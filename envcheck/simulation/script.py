"""A Program as a /bin/sh script: it looks up its arguments and lets cat print a file.  No interpreter to start."""

from __future__ import annotations

from envcheck.simulation.reply import Program, Reply

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
_PRINT = {
    False: r"printf '%s\n' \"$out\"".replace('\\"', '"'),
    True: r'printf %s "$out" | head -c $((${#out} * 3 / 5))',
}


def script(program: Program) -> str:
    """The text of bin/NAME; its answers lie in ../answers/NAME, wherever the folder is moved."""
    lines = ["#!/bin/sh", "# A stand-in written by `envcheck simulate`.", f"d=${{0%/*}}/../answers/{program.name}"]
    if program.hang_s:
        return "\n".join([*lines[:2], f"exec sleep {program.hang_s}", ""])
    if program.columns:
        lines.append(_QUERY.replace("@print@", _PRINT[program.truncated]))
    lines.append('case "$*" in')
    for n, (arguments, reply) in enumerate(program.replies.items()):
        lines.append(f"{quoted(arguments)}) {_say(reply, n)} ;;")
    for n, (prefix, reply) in enumerate(program.otherwise, len(program.replies)):
        lines.append(f"{quoted(prefix) if prefix else ''}*) {_say(reply, n)} ;;")
    return "\n".join([*lines, "esac", ""])


def answers(program: Program) -> dict[str, str]:
    """File below answers/NAME → text."""
    replies = [*program.replies.values(), *(reply for _, reply in program.otherwise)]
    files = {str(n): reply.out for n, reply in enumerate(replies)}
    files |= {f"{n}.err": reply.err for n, reply in enumerate(replies) if reply.err}
    for field, column in program.columns.items():
        files[f"columns/{field}"] = "\n".join([column.heading, *column.values]) + "\n"
        bare = [
            value if value.startswith("[") or column.heading[-1] != "]" else value.split()[0] for value in column.values
        ]
        files[f"columns-nounits/{field}"] = "\n".join([column.heading, *bare]) + "\n"
    return files


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _say(reply: Reply, n: int) -> str:
    if not reply.err and not reply.status:
        return f'exec cat "$d/{n}"'
    errors = f' cat "$d/{n}.err" >&2;' if reply.err else ""
    return f'cat "$d/{n}";{errors} exit {reply.status}'
