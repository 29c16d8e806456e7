#!/bin/bash
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HCCL_CONNECT_TIMEOUT=1800 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
CARDS=8
HOST=localhost # the head's address
COUNT=1
WORLD=$((CARDS * COUNT))
echo "world of $WORLD"
START="
    --nproc_per_node $CARDS \
    --nnodes $COUNT \
    --node_rank 0 \
    --master_addr $HOST
"
SIZES="
    --tensor-model-parallel-size 8 \
    --sequence-parallel \
    --num-layers 32 \
    --train-iters 2000 \
    --lr-warmup-fraction 0.01 \
    --save-interval 1000 \
"
torchrun $START -m posttrain $SIZES --load "the checkpoint" --save "another one"
