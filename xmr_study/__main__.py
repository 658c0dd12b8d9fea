"""`python -m xmr_study`: the console script `xmr`."""

from xmr_study.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
