#!/bin/bash
LOG=logs/$(date +%F-%H-%M).log
deepspeed --hostfile=hostfile --master_port 29600 --include="localhost:0,1,2,3" --num_gpus 4 \
  src/train_bash.py --stage sft --do_train --model_name_or_path /models/Qwen1.5-7B \
  --dataset mydata --template qwen --finetuning_type lora --lora_target q_proj,v_proj \
  --output_dir /models/Qwen1.5-7B/out --overwrite_output_dir --per_device_train_batch_size 4 \
  --deepspeed ds.json --fp16 \
  --learning_rate 5e-5 --num_train_epochs 3.0 --save_steps 1000 --plot_loss 2>&1 >$LOG
