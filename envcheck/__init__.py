"""envcheck: is this machine fit to train; if not, make it so; then train.

The core: plain data (model), the two doors to the machine (runner, machine), what is known of each vendor (vendors),
and the judging of facts (facts, checks, report).  The commands stand in envcheck.commands.
"""

__version__ = "0.1.0"
