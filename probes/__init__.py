"""One parser per tool: text in, values out.

Nothing here opens, runs or decides anything but host.py, which asks psutil.
"""
