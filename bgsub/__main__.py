"""Entry point of the program ``bgsub`` and of ``python -m bgsub``."""

from bgsub.jobs.interrupts import end_at_once, take_signals, taken


def main() -> None:
    """Run the command line; a signal while it is being imported ends the process, as nothing has begun."""
    take_signals()
    with taken(end_at_once):
        from bgsub.cli import main as run  # noqa: PLC0415 - signals first
    run()


if __name__ == "__main__":
    main()
