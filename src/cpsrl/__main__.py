"""`python -m cpsrl`, the same as the command `cpsrl`."""

import sys

from cpsrl.cli.main import main

sys.exit(main())
