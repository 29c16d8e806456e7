"""Variables that nobody sets: who could give them all the same, what their lack does, and what sets one after all."""

from __future__ import annotations

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import lint
from envcheck.scripts import source

RANK = "torchrun --nnodes 2 --nproc_per_node 8 --node_rank $RANK --master_addr "


def told(text: str, facts: Facts | None = None, head: str = "#!/bin/bash") -> dict[str, tuple[Status, str]]:
    """By the text of the place: how bad it is, and what is said."""
    raw = f"{head}\n{text}\n".encode()
    result = lint.lint(source.of("run.sh", raw), TargetMachine(lambda: facts or Facts()), others=False)
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
    """Whatever gives a variable a value, or asks for one, is seen; without it the same is told."""
    assert told(text) == {}
    assert set(told("cp $N /x")) == {"$N"}


@pytest.mark.parametrize("text", GIVEN.values(), ids=GIVEN)
def test_what_comes_from_outside(text: str) -> None:
    """Names of the shell, of a scheduler at work, of a vendor's set-up, and documented ones raise no alarm."""
    assert told(text) == {}


def test_what_the_machine_has() -> None:
    """A name in the machine's own environment is set there, and only there."""
    assert told("cp -r $SITE_DATA /x", Facts(environment={"SITE_DATA": "/data"})) == {}
    assert set(told("cp -r $SITE_DATA /x", Facts(environment={}))) == {"$SITE_DATA"}


def test_rank_for_a_node() -> None:
    """One name of a platform beside one that no platform has: whose it is, and which is a node's number."""
    found = told(f"set -u\n{RANK}$MASTER train.py")

    assert {place: severity for place, (severity, _) in found.items()} == {
        "$RANK": Status.WARN,
        "$MASTER": Status.WARN,
    }
    assert "kubeflow sets it for a pod, torchrun for its workers alone" in found["$RANK"][1]
    assert "NODE_RANK a node's" in found["$RANK"][1]
    assert all("the script stops here (set -u)" in said for _, said in found.values())
    assert "--master_addr takes the next word" in told(f"{RANK}$MASTER train.py")["$MASTER"][1]


HEADS = (
    ("#!/bin/bash", "set -u\n"),
    ("#!/bin/bash", "set -euo pipefail\n"),
    ("#!/bin/bash", "set -o errexit -o nounset\n"),
    ("#!/bin/bash -eu", ""),
)


@pytest.mark.parametrize(("head", "first"), HEADS, ids=[str(n) for n in range(len(HEADS))])
def test_where_the_script_ends(head: str, first: str) -> None:
    """However -u is asked for, a variable of the script's own that nobody sets fails where it is surely reached."""
    sure, may = told(f"{first}cp $part /x", head=head), told(f"{first}if a; then cp $part /x; fi", head=head)

    assert (sure["$part"][0], may["$part"][0]) == (Status.FAIL, Status.WARN)
    assert "the script stops there (set -u)" in sure["$part"][1]
    assert told("cp $part /x")["$part"][0] is Status.WARN


EFFECTS = {
    "cp $SRC/a /data": "the path is /a",
    "cp -r $SRC /data": "a path is lacking",
    "echo a > $LOG_FILE": "the shell has no file to open",
    "torchrun --nproc_per_node 8 train.py --data_path $SRC --lr 1": "--data_path takes the next word",
}


@pytest.mark.parametrize(("text", "said"), EFFECTS.items(), ids=[str(n) for n in range(len(EFFECTS))])
def test_what_its_lack_does(text: str, said: str) -> None:
    """The remark says what an empty value does at that place."""
    (found,) = told(text).values()

    assert said in found[1]
