"""Many machines: who they are, asking them over OpenSSH, judging each here, and voting on what ought to be equal."""
