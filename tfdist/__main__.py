"""`python -m tfdist`, the same as the command `tfdist`."""

import sys

from tfdist.cli import main

sys.exit(main())
