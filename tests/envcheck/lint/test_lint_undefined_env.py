"""Variables that the script never sets: who could set them, the effect if nobody does, and what sets them."""

from __future__ import annotations

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file

RANK = "torchrun --nnodes 2 --nproc_per_node 8 --node_rank $RANK --master_addr "


def list_remarks(text: str, facts: Facts | None = None, head: str = "#!/bin/bash") -> dict[str, tuple[Status, str]]:
    """Return text of the place → severity and message."""
    raw = f"{head}\n{text}\n".encode()
    result = linter.lint_source(
        source_file.make_source("run.sh", raw), TargetMachine(lambda: facts or Facts()), others=False
    )
    found = [each for each in result.remarks if each.rule == "shell.unset_variable"]
    return {raw[each.start : each.end].decode(): (each.severity, f"{each.seen}. {each.remedy}") for each in found}


SETS = {
    "a sum": "((N = 3)); cp $N /x",
    "a count": "((N++)); cp $N /x",
    "let": "let N+=3\ncp $N /x",
    "a descriptor": "exec {N}>/tmp/lock; cp $N /x",
    "a coprocess": "coproc N { cat; }; kill $N_PID",
    "wait": "wait -n -p N; cp $N /x",
    "read": "read -r M N <<< 'a b'; cp $N /x",
    "mapfile": "mapfile -t N < hosts; cp $N /x",
    "printf": "printf -v N x; cp $N /x",
    "for": "for N in a b; do cp $N /x; done",
    "select": "select N in a b; do cp $N /x; done",
    "a file of names": "export $(grep -v '^#' .env | xargs)\ncp $N /x",
    "a file": "source ./env.sh\ncp $N /x",
    "a default": ": ${N:=a}\ncp $N /x",
    "a demand": ': "${N:?}"\ncp $N /x',
    "a test": "test -n $N || exit 1\ncp $N /x",
    "a function's word": "f() { local N=$1; cp $N /x; }\nf a",
    "an export from outside": "export N\ncp $N /x",
}
GIVEN = {
    "the shell": "cp $HOME/a $PWD/$USER",
    "Slurm": "cp a /x/$SLURM_JOB_ID",
    "CANN": "cp $ASCEND_HOME_PATH/a /x",
    "a secret": "wandb login $WANDB_API_KEY",
    "kubeflow": f"{RANK}$MASTER_ADDR train.py",
    "a comment": "# DATA is the folder of the data.\ncp -r $DATA /x",
    "a line of help": "echo 'usage: DATA=... run.sh'\ncp -r $DATA /x",
    "the container": "docker exec c bash -c 'cp $DATA /x'",
    "a word alone": "echo run $TAG",
}


@pytest.mark.parametrize("text", SETS.values(), ids=SETS)
def test_what_sets_a_variable(text: str) -> None:
    """Every way to set or require a variable is recognised; without it the remark appears."""
    assert list_remarks(text) == {}
    assert set(list_remarks("cp $N /x")) == {"$N"}


@pytest.mark.parametrize("text", GIVEN.values(), ids=GIVEN)
def test_what_comes_from_outside(text: str) -> None:
    """Names of the shell, of a scheduler at work, of a vendor's set-up, and documented ones raise no alarm."""
    assert list_remarks(text) == {}


def test_what_the_machine_has() -> None:
    """A name in the machine's own environment is set there, and only there."""
    assert list_remarks("cp -r $SITE_DATA /x", Facts(environment={"SITE_DATA": "/data"})) == {}
    assert set(list_remarks("cp -r $SITE_DATA /x", Facts(environment={}))) == {"$SITE_DATA"}


def test_rank_for_a_node() -> None:
    """Names of a platform are distinguished from others, and node ranks from worker ranks."""
    found = list_remarks(f"set -u\n{RANK}$MASTER train.py")

    assert {place: severity for place, (severity, _) in found.items()} == {
        "$RANK": Status.WARN,
        "$MASTER": Status.WARN,
    }
    assert "set by Kubeflow in each pod, and by torchrun only in its workers" in found["$RANK"][1]
    assert "NODE_RANK a node's" in found["$RANK"][1]
    assert all("the script stops here (set -u)" in said for _, said in found.values())
    assert "--master_addr takes the next word" in list_remarks(f"{RANK}$MASTER train.py")["$MASTER"][1]


HEADS = (
    ("#!/bin/bash", "set -u\n"),
    ("#!/bin/bash", "set -euo pipefail\n"),
    ("#!/bin/bash", "set -o errexit -o nounset\n"),
    ("#!/bin/bash -eu", ""),
)


@pytest.mark.parametrize(("head", "first"), HEADS, ids=[str(n) for n in range(len(HEADS))])
def test_where_the_script_ends(head: str, first: str) -> None:
    """With any form of -u, a variable that is never set fails where it is certainly reached."""
    sure, may = (
        list_remarks(f"{first}cp $part /x", head=head),
        list_remarks(f"{first}if a; then cp $part /x; fi", head=head),
    )

    assert (sure["$part"][0], may["$part"][0]) == (Status.FAIL, Status.WARN)
    assert "the script stops at this line (set -u)" in sure["$part"][1]
    assert list_remarks("cp $part /x")["$part"][0] is Status.WARN


EFFECTS = {
    "cp $SRC/a /data": "the path becomes /a",
    "cp -r $SRC /data": "a path is missing",
    "echo a > $LOG_FILE": "the shell has no file to open",
    "torchrun --nproc_per_node 8 train.py --data_path $SRC --lr 1": "--data_path takes the next word",
}


@pytest.mark.parametrize(("text", "said"), EFFECTS.items(), ids=[str(n) for n in range(len(EFFECTS))])
def test_what_its_lack_does(text: str, said: str) -> None:
    """The remark describes the effect of an empty value."""
    (found,) = list_remarks(text).values()

    assert said in found[1]
