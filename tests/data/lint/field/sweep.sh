#!/usr/bin/env bash
# sweep
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
for lr in 1e-5 2e-5 5e-5; do
  for seed in 1 2; do
    run="lr${lr}_s${seed}"
    [ -d "runs/$run" ] && continue
    CUDA_VISIBLE_DEVICES=$((seed - 1)) python train.py --learning_rate "$lr" --seed "$seed" \
      --max_steps 2000 --warmup_steps 100 --output_dir "runs/$run" > "runs/$run.log" 2>&1 &
  done
  wait
done
rm -rf $TMPDIR/cache
tar czf results.tgz runs
