"""Which lines are worth a look: the words, one of which stands in every line that the catalogue knows.

Reading must cost about as much as reading the file.  Lines that differ in figures only are looked at once (a training
prints one line a thousand times); what is new is searched for these words at the C library's speed, not by patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

DIGITS = b"0123456789"
# Lower case and without digits.  Short, so that few are enough; the tests see that each entry is reached through one.
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
    "resolution",
)  # fmt: skip
# Messages of the C library and of the vendors' tools in a Chinese locale.
CHINESE = (
    "失败", "错误", "异常", "超时", "不足", "杀死", "终止", "拒绝", "没有", "无法", "占用", "过多", "权限",
    "不存在", "不支持", "不匹配", "不一致", "找不到", "未找到", "溢出", "空间", "使用", "吐核", "转储", "重置",
    "重设", "不可达", "是一个", "放弃",
)  # fmt: skip
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})
_SINGLE = tuple(word.encode() for word in WORDS if " " not in word)
_PHRASES = tuple(word.encode() for word in WORDS if " " in word)
# What a word ends with before a phrase can begin: `(no such` has `no`.
_OPENERS = tuple({phrase.split(b" ")[0] for phrase in _PHRASES} - {b""})
TOKENS = 400_000  # words that are remembered; a log's own are a few thousand


def has_trigger(text: str) -> bool:
    """Whether a line that holds this text, lower case, is looked at."""
    bare = "".join(c for c in text if not ("0" <= c <= "9"))
    return any(word in bare for word in (*WORDS, *CHINESE))


class Alarm:
    """Tells which lines to look at.  A word is judged once: a log has few, however many lines."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._loud: set[bytes] = set()  # words in which one of ours stands
        self._openers: set[bytes] = set()

    def hot(self, keys: Iterable[bytes]) -> Iterator[bytes]:
        """Those of the keys (lines without their digits) in which one of the words stands."""
        keys = list(keys)
        blob = b"\n".join(keys).lower()
        spots: set[int] = set()
        for word in self._worth(blob):
            at = blob.find(word)
            while at >= 0:
                spots.add(blob.rfind(b"\n", 0, at) + 1)
                at = blob.find(b"\n", at)
                at = blob.find(word, at) if at >= 0 else -1
        if spots:
            at = 0
            for key in keys:
                if at in spots:
                    yield key
                at += len(key) + 1

    def _worth(self, blob: bytes) -> Iterator[bytes]:
        """What can stand in the text at all, seen from its words alone."""
        tokens = set(blob.split())
        if len(self._known) > TOKENS:
            self._known.clear()
        self._learn(tokens - self._known)
        loud = tokens & self._loud
        if loud:
            text = b"\n".join(loud)
            yield from (word for word in _SINGLE if word in text)
        ends = tokens & self._openers
        if ends:
            yield from (phrase for phrase in _PHRASES if any(end.endswith(phrase.split(b" ")[0]) for end in ends))
        if not blob.isascii():
            yield from _WIDE

    def _learn(self, fresh: set[bytes]) -> None:
        words = list(fresh)
        self._known |= fresh
        self._openers |= {word for word in words if word.endswith(_OPENERS)}
        blob = b"\n".join(words)
        spots: set[int] = set()
        for word in _SINGLE:
            at = blob.find(word)
            while at >= 0:
                spots.add(blob.rfind(b"\n", 0, at) + 1)
                at = blob.find(word, at + len(word))
        at = 0
        for token in words:
            if at in spots:
                self._loud.add(token)
            at += len(token) + 1
