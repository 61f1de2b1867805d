"""``python -m sdf.journal``."""

import sys

from sdf.saving.command import main

sys.exit(main(sys.argv[1:]))
