"""`python -m xmr_core`."""

from xmr_core.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
