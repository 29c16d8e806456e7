#!/bin/bash
#SBATCH -J qwen-sft
#SBATCH -N 4
#SBATCH --gres=gpu:8
#SBATCH --ntasks-per-node=1
set -euo pipefail
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export NCCL_DEBUG=WARN
export HF_HOME=${SCRATCH:-/tmp}/hf
srun --kill-on-bad-exit=1 bash -c '
  torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 --node_rank=$SLURM_NODEID \
    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT \
    train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --bf16 True --max_steps 1000 --warmup_steps 50 \
    --save_steps 200 --output_dir "$OUT"
'
