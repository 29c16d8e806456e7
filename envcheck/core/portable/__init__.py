"""What the collector shares with envcheck itself.

The modules are sent to hosts with the collector: they support Python 3.6 and later, and import only the standard
library (tests/envcheck/collect/test_collector.py enforces this).
"""
