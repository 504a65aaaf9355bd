"""`python -m roundtable_local`."""

from roundtable_local.cli import main

if __name__ == "__main__":
    main()
