"""What a part of a file was read as, and what of it was not checked: the first lines of a result."""

from __future__ import annotations

from dataclasses import dataclass

from envcheck.core.messages import Message


@dataclass(frozen=True)
class Reading:
    """`kind` is the language of the part (bash, yaml, json, dockerfile); `program` reads it, in these `versions` of its
    package, by the option `parser`; an empty field is unknown.  `unchecked` is what envcheck has no rules for.
    """

    kind: str
    program: str = ""
    versions: str = ""
    parser: str = ""
    unchecked: tuple[Message, ...] = ()
