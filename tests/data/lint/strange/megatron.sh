#!/bin/bash
# Arrays of arguments, degrees of their own, positions from the command line.
set -eu
export CUDA_DEVICE_MAX_CONNECTIONS=1
PER_NODE=8
HEAD=${HEAD:-localhost}
NODES=${NODES:-1}
WORLD=$((PER_NODE * NODES))
SAVE_DIR=$1
CORPUS=$2
MERGES=$3

WHERE=(
    --nproc_per_node $PER_NODE
    --nnodes $NODES
    --master_addr $HEAD
    --master_port ${PORT:-6000}
)
SHAPE=(
    --num-layers 24   # a comment among the words
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
)
STEPS=(--micro-batch-size 1 --global-batch-size $((WORLD * 4)) --train-iters 500000 --lr-warmup-iters 2000 --bf16)
SPLIT=(--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2)
torchrun ${WHERE[@]} -m pretrain_model ${SHAPE[@]} ${STEPS[@]} ${SPLIT[@]} \
    --data-path $CORPUS --merge-file $MERGES --save $SAVE_DIR --load $SAVE_DIR "$@"
