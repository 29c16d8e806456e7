#!/bin/bash
NODES=(192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4)
MASTER=${NODES[0]}
for i in "${!NODES[@]}"; do
  ssh -o StrictHostKeyChecking=no root@${NODES[$i]} "cd /nfs/work && source /usr/local/Ascend/ascend-toolkit/set_env.sh && nohup torchrun --nnodes ${#NODES[@]} --nproc_per_node 8 --node_rank $i --master_addr $MASTER --master_port 29501 train.py --config cfg.yaml > log_$i.txt 2>&1 &" &
done
wait
