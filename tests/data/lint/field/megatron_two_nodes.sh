#!/bin/bash
export HCCL_SOCKET_IFNAME= "bond0"
export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
source /usr/local/Ascend/ascend-toolkit/set_env.sh
NPUS_PER_NODE=8
MASTER_ADDR=localhost
NNODES=2
NODE_RANK=0
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port 6000
"
GPT_ARGS="--tensor-model-parallel-size 4 --pipeline-model-parallel-size 3 --micro-batch-size 1 --global-batch-size 16 --train-iters 2000 --lr-warmup-iters 4000 --save-interval 10000"
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py $GPT_ARGS 2>&1 | tee train.log
