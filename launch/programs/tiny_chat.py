"""Chat with the tiny model, which continues the typed text with some bytes."""

from __future__ import annotations

import signal
import sys

import numpy
import paddle
from tiny_model import Decoder  # type: ignore[import-not-found, unused-ignore]  # in the same folder when run by path

PROMPT, REPLY, LEAVE = "User: ", "Tiny: ", ("exit", "quit")
BYTES, CONTEXT = 120, 128  # bytes per answer, and bytes of context; training sequences have 64
LETTERS = range(32, 127)  # printable ASCII only


def run_dialogue(model: Decoder) -> None:
    """Answer lines until the end of the input, a word in LEAVE, or Ctrl-C.

    Ctrl-C uses the kernel's default action: Python's handler only sets a flag, and a signal between prompt and read
    would take effect only after the next line.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    model.eval()
    chance = numpy.random.default_rng(0)
    while True:
        try:
            said = input(f"\n{PROMPT}")
        except EOFError:
            print()  # ends the line of the prompt
            return
        if said.strip() in LEAVE:
            return
        sys.stdout.write(REPLY)
        for letter in generate_answer(model, said.encode("utf-8", "replace"), chance):
            sys.stdout.write(chr(letter))
            sys.stdout.flush()
        sys.stdout.write("\n")


def generate_answer(model: Decoder, said: bytes, chance: numpy.random.Generator) -> list[int]:
    """Return bytes sampled from the model's probabilities; always taking the best one would repeat a letter."""
    tokens = list(said) or [LETTERS.start]
    for _ in range(BYTES):
        with paddle.no_grad():
            guess = model(paddle.to_tensor([tokens[-CONTEXT:]], dtype="int64"))[0, -1].numpy().astype("float64")
        if not numpy.isfinite(guess).all():  # the training diverged
            sys.exit("the weights give no probabilities: values are not finite, or too large")
        odds = numpy.exp(guess[LETTERS.start : LETTERS.stop] - guess.max())
        tokens.append(int(chance.choice(LETTERS, p=odds / odds.sum())))
    return tokens[-BYTES:]
