"""What is read of the machine itself, here and on hosts over ssh: the collector.

It travels to hosts as source text, so its modules are for every Python from 3.6 on and import nothing but the standard
library, each other and envcheck.core.home_folder: annotations in quotes, no dataclasses, no assignment expressions
(tests/envcheck/collect/test_collector.py holds it).  Nothing is judged here, and no vendor is known but by its record.
"""
