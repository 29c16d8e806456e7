FROM registry.baidubce.com/device/paddle-ixuca:latest
ENV LD_LIBRARY_PATH=/usr/local/corex/lib64:$LD_LIBRARY_PATH
ENV PADDLE_XCCL_BACKEND=iluvatar_gpu
RUN apt-get update && apt-get install -y git vim \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m pip install paddlepaddle==3.1.0a0 -i https://www.paddlepaddle.org.cn/packages/nightly/cpu/
RUN python3 -m pip install paddle-iluvatar-gpu==3.1.0 -i https://www.paddlepaddle.org.cn/packages/nightly/ixuca/
RUN git clone https://github.com/PaddlePaddle/ERNIE.git /work/ERNIE && cd /work/ERNIE && pip install -r requirements/gpu/requirements.txt && pip install -e .
WORKDIR /work/ERNIE
CMD erniekit train examples/configs/ERNIE-4.5-21B-A3B/sft/run_sft_lora_8k.yaml model_name_or_path=/models/x
