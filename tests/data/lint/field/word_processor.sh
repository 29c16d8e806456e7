#!/bin/bash
# 微调脚本 —— 单机八卡
export ASCEND_RT_VISIBLE_DEVICES=0，1，2，3
source /usr/local/Ascend/ascend-toolkit/set_env.sh
torchrun --nproc_per_node=4 train.py \
  --data_path “/data/训练.json” \
  --output_dir ./输出 \
  --fp16 True
