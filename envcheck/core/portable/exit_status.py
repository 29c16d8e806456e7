"""Exit statuses of commands that did not end by themselves, and the note of one that printed too much.

They are for people and for `status != 0`: a program can exit with each of them itself.  What happened is in the fields
`absent`, `hung`, `unstarted` and `flooded` of a result.
"""

NOT_FOUND, NOT_STARTED, HUNG = 127, 126, 124  # those of the shell and of timeout(1)
TOO_MUCH = 125  # our choice, for a command that was stopped because it printed too much


def describe_too_much(limit: int) -> str:
    """Return the line that precedes the errors of a command which was stopped after `limit` bytes."""
    return f"printed more than {limit >> 20} MiB, and was stopped\n"
