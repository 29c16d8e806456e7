FROM ascendai/cann:8.0.rc1-910b-ubuntu22.04-py3.9
ENV DEBIAN_FRONTEND=noninteractive
ARG INSTALL_DEEPSPEED=false
ARG PIP_INDEX=https://pypi.org/simple
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /app
COPY requirements.txt /app
RUN pip config set global.index-url "$PIP_INDEX"
RUN pip config set global.extra-index-url "$TORCH_INDEX"
RUN python -m pip install --upgrade pip && \
    python -m pip install -r requirements.txt
COPY . /app
RUN EXTRA_PACKAGES="torch-npu,metrics"; \
    if [ "$INSTALL_DEEPSPEED" == "true" ]; then \
        EXTRA_PACKAGES="${EXTRA_PACKAGES},deepspeed"; \
    fi; \
    pip install -e ".[$EXTRA_PACKAGES]"
VOLUME [ "/root/.cache/huggingface", "/root/.cache/modelscope" ]
ENV GRADIO_SERVER_PORT 7860
EXPOSE 7860
EXPOSE 8000
