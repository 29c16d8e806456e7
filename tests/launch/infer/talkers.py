"""Stand-ins for chat programs: `python talkers.py STYLE KIND` behaves like one on its terminal."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

BUSY = "\x1b]0;a title\x07\x1b[?25lLoading checkpoint shards:  50%\rLoading checkpoint shards: 100%\r\n\x1b[?25h"
# Prompt, text before an answer and text after it, as printed by LLaMA-Factory, ms-swift 4 and ERNIEKit.
STYLES = {
    "llamafactory": ("\nUser: ", "Assistant: ", ""),
    "swift": ("<<< ", "", f"{'-' * 50}\n"),
    "erniekit": ("\nUser: ", "Assistant: ", ""),
}
ANSWERS = {
    "answer": "I am a stand-in.\nIn two lines: User: is no prompt in the middle of one.",
    "empty": "",
    "escapes": "\x1b[1mbold\x1b[0m and \x1b]8;;https://example.org\x07a link\x1b]8;;\x07, \x08\x9bplain",
    "large": "many words and no end " * 50_000,
    "secret": "your token=abcdef0123456789 is safe with me",
    "traceback": 'Traceback (most recent call last):\n  File "x.py", line 1\nRuntimeError: out of words',
}


def main() -> None:
    style, kind = sys.argv[1:3]
    if kind == "dies":
        sys.exit("OSError: no such model")
    if kind == "crashes":
        raise RuntimeError("the weights are of another model")
    print(BUSY, end="", flush=True)
    if kind == "never":
        time.sleep(600)
    if kind == "readline":
        import readline  # noqa: F401  # it does its own echo from now on
    run_dialogue(style, "answer" if kind == "readline" else kind)


def run_dialogue(style: str, kind: str) -> None:
    prompt, reply, rule = STYLES[style]
    while (said := input(prompt)) != "exit":
        Path(os.environ["HEARD"]).write_text(said)
        print(reply, end="", flush=True)
        if kind == "stuck":  # the thread that answers fell over, the program waits for it
            print(ANSWERS["traceback"], flush=True)
        if kind in ("silent", "stuck"):
            time.sleep(600)
        if kind == "falls":
            os._exit(3)
        if kind == "floods":
            while True:
                print("word " * 1000)
        for piece in ANSWERS[kind].split(" "):  # as a model streams it
            print(piece, end=" ", flush=kind != "large")
        print(f"\n{rule}", end="")


if __name__ == "__main__":
    main()
