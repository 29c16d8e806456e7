"""python -m envcheck"""

from envcheck.cli import entry

if __name__ == "__main__":
    entry()
