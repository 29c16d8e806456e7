"""Tests between hosts: names, clocks, ports, bandwidth and RDMA."""
