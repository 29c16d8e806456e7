"""The nodes of a job meet before the training starts: who is there, as which rank, and whether they belong together.

paddle.distributed.launch waits for ever for a node that does not come, and trains with nodes that do not fit.
"""
