"""The collector: reads facts from the system, on this host and on hosts over ssh.

It is sent to hosts as source text, so its modules must run on every Python from 3.6 on and import only the standard
library, each other and envcheck.core.portable: annotations in quotes, no dataclasses, no assignment expressions
(tests/envcheck/collect/test_collector.py enforces this). It evaluates nothing, and knows vendors only by their records.
"""
