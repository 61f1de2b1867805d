"""``python -m sdf.journal``."""

import sys

from sdf.journal.tool import main

sys.exit(main(sys.argv[1:]))
