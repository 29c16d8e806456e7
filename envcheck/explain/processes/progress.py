"""How far a training came, by the lines of its steps and its trainer's mark of a regular end.

A block is searched from its end for a few words, so that this costs a small part of reading it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TRIES = 12  # lines of a block that are examined, the last ones
WIDTH = 600  # bytes of such a line
KEPT = 3  # steps that must follow an error before it counts as survived: other ranks print their last one later
ANSWERS = 2  # one may have been on its way when the server failed
_STEP_WORDS = (b"loss", b"it/s", b"s/it", b"iteration", b"step")
_END_WORDS = (b"train_samples_per_second", b"raining completed", b"raining Completed", b"after training is done",
              b"End time of running main", b"raining finished", b"exits successfully", b"nd of training",
              b"Trainer.fit` stopped: `max_", b"ENDING TIMING RUN AT", b'"success"', b"inished training",
              b"inished Training", b"raining done", b"raining complete", b"' succeeded",
              b"Out of bounds values", b"Final validation metrics", b"done training in",
              b"aving final epoch checkpoint", b"aved final model checkpoint", b"|Version|",
              b"used for training.")  # fmt: skip
_END = re.compile(
    rb"train_samples_per_second['\"]?\s{0,30}[:=]"
    rb"|(?:^|[^\w])[Tt]raining (?:[Cc]ompleted?|finished|done)\b(?! (?:steps?|with err|\d))"
    rb"|^(?:\W|\d){0,40}[Ff]inished [Tt]raining\b(?! (?:steps?|with err|\d|epoch|batch|iteration))"
    rb"|^(?:[^'\n]{0,60} -- )?Job '[\w.-]{1,80}' succeeded\s{0,3}$"  # of Ray's job command
    rb"|^(?:[^\n#]{0,60}: ?)?# Out of bounds values\s{0,4}: 0 OK"  # of NCCL's and HCCL's tests
    rb"|^(?:\(TaskRunner[^)\n]{0,60}\)[^\n]{0,40}?)?\W{0,4}Final validation metrics: "  # of verl
    rb"|^\s{0,8}[\d.]{1,12} (?:seconds|minutes) used for training\."  # of unsloth's notebooks
    rb"|\bdone training in [\d.]{1,12} seconds|\bSav(?:ing|ed) final (?:epoch|model) checkpoint\b"  # fairseq, torchtune
    rb"|^\| {0,40}(?:Tasks|Groups) {0,40}\|Version\|"  # the results of lm-eval
    rb"|Trainer\.fit` stopped: `max_(?:epochs|steps|time)|^(?:\d{1,6}: )?ENDING TIMING RUN AT \d"
    # MLPerf's log of a run that reached its target
    rb"|:::MLLOG .{0,400}(?:\"status\": \"success\"|\"status\", \"value\": \"success\")"
    rb"|\[after training is done\]|End time of running main|Process \d{1,9} exits successfully"
)
# A server's mark that it is ready, requests that it answered, and its report of what it generates.
_ANSWER_WORDS = (b'" 200', b"| 200 |", b"runner started", b"startup complete", b"is listening on http", b": Connected",
                 b"Started HTTPService", b"Daemon start success", b": Success", b"request: POST")  # fmt: skip
_THROUGHPUT_WORDS = (b"throughput",)  # an idle server prints it too, so that these lines may be the last ones
_SERVED = re.compile(
    rb'"POST /[^" \n]{0,80}(?:completions|generate|embed|chat|score|rerank)[^" \n]{0,40} HTTP/1\.[01]" 200\b'
    rb"|^\[GIN\] [^\n]{10,40}\| 200 \|[^\n]{0,80} \"/(?:api/(?:chat|generate|embed)|v1/\w)"
    rb"|\bllama runner started\b|\bApplication startup complete\b"
    rb"|\bserver is listening on http|\bStarted HTTPService at |^Daemon start success!"
    rb"|\blog_server_r: request: POST .{1,200} 200\b"
    rb"|\btext_generation_router\S{0,60}: (?:[\w/.:]{1,60}: )?(?:Connected|Success)\s{0,3}$"
    # More than 0, and not by an engine that a worker of Ray has: it generates for a training.
    rb"|^(?!.{0,20}\((?!APIServer|EngineCore)\w[\w.:]{0,80} pid=\d)"
    rb"[^\n]{0,300}\bgen(?:eration)? throughput\b[^\n:]{0,20}: (?=[\d.]{0,12}[1-9])"
)
# A start answers nothing: what the program reported before it counts.
_READY = re.compile(
    rb"\bstartup complete\b|\brunner started\b|\bis listening on http|\bStarted HTTPService|\bstart success|: Connected"
)
_STOP_WORDS = (b"Finished server process", b"shutdown complete")
_STOPPED = re.compile(rb"\bFinished server process \[\d|\bApplication shutdown complete\b")
# tqdm of a training: bars with another caption are of preparations, but move as well.
_BAR = re.compile(rb"(\d{1,9})/(\d{1,9}) \[[\d:?]{2,12}<")
_CAPTION = re.compile(rb"^\s{0,40}(?:[Tt]rain\w{0,8}|[Ee]poch|Steps?)?[^A-Za-z%]{0,30}\d{1,3}%")
_STEPS = re.compile(
    rb"(?:global_step|\biteration|\b[Ss]teps?|\bstep_num)['\"]?\s{0,3}[:=/ ]\s{0,12}['\"]?(\d{1,9})"
    rb"|\bEpoch\b.{0,40}?\[?\b(\d{1,9})/\d{1,9}\]?"
)
_LOSS = re.compile(
    rb"\bloss\w{0,12}['\"]?\s{0,3}[:=]\s{0,3}['\"]?-?\d|\biteration\s{1,12}\d{1,9}/|\bstep\s?[:=]?\s?\d{1,9}\b"
)
_FAST = re.compile(rb"\d{4}(?:\.\d{1,4})?it/s\]")  # rows of a data set: no training makes so many steps
# A line with its time, or one that Ray passed on from a worker's log soon after it was written.
_ORDERED = re.compile(rb"\d\d:\d\d:\d\d|^(?:\x1b\[\d{1,3}m)?\(\w[\w.:]{0,80} pid=\d{1,9}")


@dataclass(frozen=True)
class StepLine:
    """A line of a step; `in_order` if its place is where it was written, as of what goes to standard error."""

    number: int
    text: bytes
    step: int | None
    in_order: bool


@dataclass
class ProgressMarks:
    """The first and last line of a step, the last ones in which a training advanced, the last mark of a regular end."""

    first: StepLine | None = None
    last: StepLine | None = None
    advances: tuple[StepLine, ...] = ()
    end: int = 0  # line
    end_text: bytes = b""
    served: tuple[int, ...] = ()  # the last lines of requests that a server answered, and of its start
    answered: int = 0  # the last line of a request
    stopped: int = 0  # line by which a server, or a container, reports that it ended as asked

    def add_step(self, one: StepLine) -> None:
        """Record the next line of a step."""
        if self._is_advance(one):
            self.advances = (*self.advances, one)[-KEPT:]
        self.first, self.last = self.first or one, one

    def _is_advance(self, one: StepLine) -> bool:
        return self.last is None or one.step is None or one.step != self.last.step

    def append_part(self, other: ProgressMarks, lines: int) -> None:
        """Extend by those of the part that follows, of which the log has `lines` lines before."""
        if other.first and other.last:
            first = _shift_step(other.first, lines)
            more = tuple(_shift_step(one, lines) for one in other.advances)
            if more[0] == first and not self._is_advance(first):  # it advanced in its part only
                more = more[1:]
            self.advances = (*self.advances, *more)[-KEPT:]
            self.first, self.last = self.first or first, _shift_step(other.last, lines)
        self.served = (*self.served, *(one + lines for one in other.served))[-KEPT:]
        self.answered = other.answered + lines if other.answered else self.answered
        self.stopped = other.stopped + lines if other.stopped else self.stopped
        if other.end:
            self.end, self.end_text = other.end + lines, other.end_text

    def find_survived(self) -> int:
        """Return the line after which so many steps follow that nothing before it ended the training; 0 for none.

        In the log of a server, which has no steps, these are requests that it answered.
        """
        if all(one is None or _is_of_preparation(one) for one in (self.first, self.last)):
            return self.served[-ANSWERS] if len(self.served) >= ANSWERS and self.answered > self.served[-ANSWERS] else 0
        ordered = len(self.advances) == KEPT and all(one.in_order for one in self.advances)
        return self.advances[0].number if ordered else 0

    def has_gone_on(self) -> bool:
        """Return whether steps were made after the mark of a regular end: that of a stage, or of an earlier run."""
        is_record = self.end_text.startswith(b"{")  # its place tells when it was written, next to other records
        later = [one for one in self.advances if one.number > self.end and not _BAR.search(one.text)]
        return len(later) == KEPT and all(one.in_order or (is_record and one.text.startswith(b"{")) for one in later)


def _is_of_preparation(one: StepLine) -> bool:
    """Return whether the line is a bar with another caption than of a training: a server loads its weights."""
    return one.step is None and bool(_BAR.search(one.text))


def _shift_step(one: StepLine, lines: int) -> StepLine:
    return StepLine(one.number + lines, one.text, one.step, one.in_order)


def feed_progress(marks: ProgressMarks, block: bytes, lines: int) -> None:
    """Update the marks by a block that follows `lines` lines."""
    for at, text in reversed(list(_find_step_lines(block))):
        marks.add_step(_read_step(lines + 1 + block.count(b"\n", 0, at), text))
    served = [(lines + 1 + block.count(b"\n", 0, at), text) for at, text in reversed(_find_served(block))]
    marks.served = (*marks.served, *(number for number, _text in served))[-KEPT:]
    marks.answered = max((number for number, text in served if not _READY.search(text)), default=marks.answered)
    for start, _text in (one for one in _find_last_lines(block, _STOP_WORDS) if _STOPPED.search(one[1])):
        marks.stopped = max(marks.stopped, lines + 1 + block.count(b"\n", 0, start))
    if found := _find_end(block):
        marks.end, marks.end_text = lines + 1 + block.count(b"\n", 0, found[0]), found[1]


def _find_step_lines(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield place and text of the last lines of steps, the last one first."""
    lines = _find_last_lines(block, _STEP_WORDS)
    return ((start, text) for start, text in lines if _BAR.search(text) or _LOSS.search(text))


def _find_served(block: bytes) -> list[tuple[int, bytes]]:
    """Return place and text of the last lines of answered requests, the last one first."""
    lines = (line for words in (_ANSWER_WORDS, _THROUGHPUT_WORDS) for line in _find_last_lines(block, words))
    return sorted({line for line in lines if _SERVED.search(line[1])}, reverse=True)


def _find_last_lines(block: bytes, words: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield place and text of the last lines with one of the words, the last one first."""
    end = len(block)
    places = {word: block.rfind(word) for word in words}
    for _unused in range(TRIES):
        at = max(places.values())
        if at < 0:
            return
        start, text = _cut_out_line(block, at)
        yield start, text
        end = start
        for word, place in places.items():
            if place >= end:
                places[word] = block.rfind(word, 0, end)


def _cut_out_line(block: bytes, at: int) -> tuple[int, bytes]:
    """Return the start and the text of the line at a place; what a bar overwrote is a line of its own."""
    start = max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at)) + 1
    start = max(start, at - WIDTH)
    text = block[start : at + WIDTH]
    ends = [place for place in (text.find(b"\n", at - start), text.find(b"\r", at - start)) if place >= 0]
    return start, text[: min(ends)] if ends else text


def _read_step(number: int, text: bytes) -> StepLine:
    if bar := _BAR.search(text):
        return StepLine(number, text, int(bar[1]) if _CAPTION.match(text) and not _FAST.search(text) else None, True)
    found = _STEPS.search(text)
    step = int(found[1] or found[2]) if found else None
    return StepLine(number, text, step, bool(_ORDERED.search(text)))


def _find_end(block: bytes) -> tuple[int, bytes] | None:
    for at in sorted((block.rfind(word) for word in _END_WORDS), reverse=True):
        if at < 0:
            return None
        start, text = _cut_out_line(block, at)
        if _END.search(text):
            return start, text
    return None
