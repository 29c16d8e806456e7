"""Talk with the tiny model: a line in, some bytes of its own out; it goes on with a text and knows no answers."""

from __future__ import annotations

import signal
import sys

import numpy
import paddle
from tiny_model import Decoder  # type: ignore[import-not-found, unused-ignore]  # beside us when run by path

PROMPT, REPLY, LEAVE = "User: ", "Tiny: ", ("exit", "quit")
BYTES, CONTEXT = 120, 128  # of an answer, and what it is made from: it was trained on 64 at a time
LETTERS = range(32, 127)  # nothing that could move a cursor, and no half characters


def talk(model: Decoder) -> None:
    """Until the end of the input, a word of LEAVE, or Ctrl-C.

    The last by the kernel's own way: Python's only marks the signal, and one that comes between the prompt and the
    read is not looked at before the next line has been typed.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    model.eval()
    chance = numpy.random.default_rng(0)
    while True:
        try:
            said = input(f"\n{PROMPT}")
        except EOFError:
            print()  # below the prompt, which stands on the line
            return
        if said.strip() in LEAVE:
            return
        sys.stdout.write(REPLY)
        for letter in answer(model, said.encode("utf-8", "replace"), chance):
            sys.stdout.write(chr(letter))
            sys.stdout.flush()
        sys.stdout.write("\n")


def answer(model: Decoder, said: bytes, chance: numpy.random.Generator) -> list[int]:
    """Each byte is drawn by the model's own odds; the best alone would be the same letter for ever."""
    tokens = list(said) or [LETTERS.start]
    for _ in range(BYTES):
        with paddle.no_grad():
            guess = model(paddle.to_tensor([tokens[-CONTEXT:]], dtype="int64"))[0, -1].numpy().astype("float64")
        odds = numpy.exp(guess[LETTERS.start : LETTERS.stop] - guess.max())
        tokens.append(int(chance.choice(LETTERS, p=odds / odds.sum())))
    return tokens[-BYTES:]
