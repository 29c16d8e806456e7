#!/bin/bash
docker pull nvcr.io/nvidia/pytorch:24.05-py3
docker run --gpus all -it --rm --shm-size=16g --ulimit memlock=-1 \
  -e NCCL_IB_DISABLE=1 -e NCCL_SOCKET_IFNAM=eth0 -e WANDB_MODE=offline \
  -v $PWD:/workspace/code -w /workspace/code \
  nvcr.io/nvidia/pytorch:24.04-py3 \
  bash -c "pip install -U transformers accelerate && torchrun --standalone --nproc_per_node=8 pretrain.py --lr 3e-4 --min-lr 3e-3 --bf16"
