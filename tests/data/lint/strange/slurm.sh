#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --output=logs/%x-%j.out
set -e -o pipefail
module load cuda/12.1
source ~/.bashrc
conda activate train
export NCCL_IB_HCA=mlx5_0:1,mlx5_1:1
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=$(srun --nodes=1 --ntasks=1 -w "${hosts[0]}" hostname --ip-address)
START="torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $first:29500"
WORK="-m finetune.main --model_name_or_path meta-llama/Llama-2-7b-hf --bf16 True --max_steps 1000 --warmup_steps 100"
srun --jobid "$SLURM_JOBID" bash -c "$START --node_rank \$SLURM_PROCID $WORK" 2>&1 | tee -a logs/train.log
