"""Many machines: who they are, asking them over OpenSSH, judging each here, and voting on what ought to be equal.

Some of this travels to the nodes (onboard, plain_psutil): what stands here is imported there, so it imports nothing.
"""
