"""Rendezvous of the nodes of a job before the training starts: ranks, and whether the nodes are consistent.

paddle.distributed.launch waits forever for a missing node, and starts on nodes with different versions or devices.
"""
