"""Vendors' driver installers: download, verify, and run them with prepared answers.  Each vendor's driver.toml
describes them.
"""
