"""``python -m sdf.journal``."""

import sys

from sdf.journal.tool import main
from sdf.saving.tool import run

sys.exit(main(sys.argv[1:], saved=run))
