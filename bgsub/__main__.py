"""Entry point of the program ``bgsub`` and of ``python -m bgsub``."""

from bgsub.cli import main

if __name__ == "__main__":
    main()
