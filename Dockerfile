# envcheck as a container image, for any architecture of the base; `make dist` makes the file that it holds.
#
#     make dist && docker build -t envcheck . && docker run --rm envcheck simulate atlas-800t-a2 -- envcheck doctor
#
# docs/how-to/run-in-a-container.md says which devices and mounts each vendor's tool needs.
ARG BASE=python:3.12-slim
FROM ${BASE}
COPY dist/envcheck.pyz /usr/local/bin/envcheck
# The file unpacks its libraries at the first start; a user without a home has /tmp.
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["python3", "/usr/local/bin/envcheck"]
CMD ["doctor"]
