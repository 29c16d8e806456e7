#!/bin/bash
set -e
IMAGE=${IMAGE:-nvcr.io/nvidia/pytorch:24.07-py3}
NAME=train-$USER
docker rm -f "$NAME" 2>/dev/null || true
docker run --gpus all --rm -d --name "$NAME" --ipc=host --ulimit memlock=-1 \
  --network host -v "$PWD":/workspace -v "${DATA_DIR:?}":/data:ro -w /workspace \
  -e HF_TOKEN -e WANDB_API_KEY "$IMAGE" \
  bash -c 'pip install -r requirements.txt && torchrun --nproc_per_node=8 -m package.train --config configs/base.yaml'
docker logs -f "$NAME" | tee train.log
