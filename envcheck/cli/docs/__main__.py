"""python -m envcheck.cli.docs: write all that is generated in README and docs/; run it in the checkout.

Without an argument it writes the pages and the screens; `pages`, `screens` or `pictures` writes only these.
"""

from __future__ import annotations

import sys

from envcheck.cli.docs.generate import main

if __name__ == "__main__":
    main(sys.argv[1:])
