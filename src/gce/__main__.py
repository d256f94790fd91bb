"""`python -m gce`: the same as `gce`."""

import sys

from gce.app.cli import main

sys.exit(main())
