#!/usr/bin/env bash
set -o errexit -o nounset -o pipefail
cd "$(dirname "$0")/.."
: "${OUT:=/tmp/out}"
MORE="--learning_rate 2e-5 --num_train_epochs 3"
if [[ -n "${LORA:-}" ]]; then
  MORE="$MORE --use_peft --lora_r 16"
fi
for seed in 1 2 3; do
  accelerate launch --config_file conf/zero3.yaml --num_processes 8 \
    src/sft.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct $MORE --seed "$seed" \
    --output_dir "$OUT/run-$seed" --bf16 || { echo failed; exit 1; }
done
