"""Run the command line as ``python -m estim``."""

from estim.cli import main

raise SystemExit(main())
