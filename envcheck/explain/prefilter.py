"""Which lines are worth a look, and which patterns may be found in them: plain words are sought before any pattern is.

Triggers: reading must cost about as much as reading the file.  Lines that differ in figures only are looked at once (a
training prints one line a thousand times); what is new is searched for the triggers, one of which stands in every line
that the catalogue knows, in one pass.

Needles: a pattern costs a microsecond for every few characters; whether a word that must stand in a match stands in a
text costs next to nothing.  Each digit is 0 there: that figures stand in a row tells much, also where a pattern leaves
open which.  The long s and the dotless i are s and i to a pattern of whatever case; here they are not.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from envcheck.explain.words import Words

DIGITS = b"0123456789"
# Triggers, lower case and without digits.  Short, so that few are enough; tests see that each entry is reached by one.
WORDS = (
    "rror", "fail", "xcept", "can't", "meout", "ed out", "es out", "out of", "kill", "signal", "sigterm", "sigsegv",
    "sigabrt", "sigbus", "undefined", "denied", "refused", "reset", "closed", "not ", "no such", "no space",
    "no module", "no kernel", "nvalid", "glibc", "nan", "xid", "nccl warn", "mismatch", "nsufficient", "xceed",
    "orrupt", "runcat", "too ", "abort", "dump", "fault", "nrecogn", "nexpect", "nknown", "nsupport", "missing",
    "unable", "exit", "raceback", "gated", "fatal", "hint:", "ret is", "lost", "nreach", "ncomplete", "llegal",
    "overflow", "nconsistent", "no route", "broken", "lready", "falling back", "non-zero", "uncorrect", "must be",
    "should be", "has no", ": inf", "=inf", "hang", "stuck", "dead", "conflict", "ncompatib", "requir", "oom",
    "watchdog", "unhandled", "not.", "not,", "n't", "terminat", "fragment", "no device", "fallen", "longer than",
    "is a dir", "no gpu", "nterrupt", "no cuda", "uplicate", "misalign", "ivisib", "at most", "only ", "nauthor",
    "forbid", "restricted", "awaiting", "bad ", "is empty", "no matching", "no valid", "no user", "no file",
    "no address", "no nvidia", "no npu", "no socket", "ancdata", "retry", "read-only", "force stop", "assert",
    "low on", "argv", "at least", "ready twice", "please ", "partially", "compareframe", "maybe ", "nsatisf",
    "backoff", "errimage", "emfile", "eacces", "eaddr", "enospc", "different", "without", "_e_", "synchron",
    "resolution", "sigint", "etimedout", " vs hf", "= inf", "externally",
)  # fmt: skip
# Messages of the C library and of the vendors' tools in a Chinese locale.
CHINESE = (
    "失败", "错误", "异常", "超时", "不足", "杀死", "终止", "拒绝", "没有", "无法", "占用", "过多", "权限",
    "不存在", "不支持", "不匹配", "不一致", "找不到", "未找到", "溢出", "空间", "使用", "吐核", "转储", "重置",
    "重设", "不可达", "是一个", "放弃",
)  # fmt: skip
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})
# The standard library's own parser of patterns; before Python 3.11 it had another name.
_parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
MOST = 24  # words of one set: more cost as much as the pattern
_DIGIT = re.compile(r"\d")
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)


@functools.cache
def _all() -> Words:
    return Words([*(word.encode() for word in WORDS), *_WIDE], swift=True)


def has_trigger(text: str) -> bool:
    """Whether a line that holds this text, lower case, is looked at."""
    bare = "".join(c for c in text if not ("0" <= c <= "9"))
    return any(word in bare for word in (*WORDS, *CHINESE))


def select_lines(keys: Iterable[bytes]) -> list[bytes]:
    """Those of the keys (lines without their digits) in which one of the words stands, in whatever case."""
    return list(_all().lines(list(keys)))


def mask_digits(low: str) -> str:
    """The text with 0 for each digit."""
    return low.encode("ascii").translate(_ZEROS).decode("ascii") if low.isascii() else _DIGIT.sub("0", low)


def may_match(pattern: re.Pattern[str], low: str) -> bool:
    """Whether the pattern, of whatever case, can be found in a text; `low` is that text, lower case and with zeros."""
    for some in find_needles(pattern):
        for word in some:  # any() and all() would cost three times as much as the words
            if word in low:
                break
        else:
            return False
    return True


@functools.cache
def find_needles(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    """Sets of words in lower case, rare ones first: of each, one stands in every text in which the pattern is found."""
    found = {some for some in _of(_parser.parse(pattern.pattern, pattern.flags)) if len(some) <= MOST}
    return tuple(sorted(found, key=rate_rarity, reverse=True))


def rate_rarity(some: frozenset[str]) -> tuple[int, int]:
    """Long words, figures and few of them are rare in what people write."""
    return min(len(word) + word.count("0") for word in some), -len(some)


def _of(parts: Iterable[Any]) -> Iterator[frozenset[str]]:
    """Of parts that stand one after the other: each row of plain characters, and what groups have."""
    row = ""
    for kind, said in parts:
        plain, ends = _plain(str(kind), said)
        row += plain
        if ends:
            yield from _words(row)
            row = ""
            yield from _inside(str(kind), said)
    yield from _words(row)


def _plain(kind: str, said: Any) -> tuple[str, bool]:
    """The characters that a part is for certain, and whether what follows may not stand next to them."""
    if kind == "LITERAL":
        return mask_digits(chr(said).lower()), False
    if kind == "IN" and all(_is_digit(str(of), which) for of, which in said):
        return "0", False
    if kind in ("MAX_REPEAT", "MIN_REPEAT") and len(said[-1]) == 1:
        plain, ends = _plain(*_named(said[-1][0]))
        return plain * said[0], ends or said[0] != said[1]
    return "", kind != "AT"  # which is a place, no character: \b does not part a word


def _named(part: Any) -> tuple[str, Any]:
    return str(part[0]), part[1]


def _is_digit(kind: str, said: Any) -> bool:
    if kind == "RANGE":
        return bool(said[0] >= 48 and said[1] <= 57)
    return (kind == "LITERAL" and 48 <= said <= 57) or (kind == "CATEGORY" and str(said) == "CATEGORY_DIGIT")


def _words(row: str) -> Iterator[frozenset[str]]:
    if row.strip():
        yield frozenset((row,))


def _inside(kind: str, said: Any) -> Iterator[frozenset[str]]:
    """Of one part that holds others; of all that is not known, nothing."""
    if kind == "SUBPATTERN" or (kind in ("MAX_REPEAT", "MIN_REPEAT") and said[0] > 0):
        yield from _of(said[-1])
    elif kind == "BRANCH":
        ways = [max(_of(way), key=rate_rarity, default=None) for way in said[1]]
        if None not in ways:
            yield frozenset().union(*(way for way in ways if way))
