"""``python -m dimargin`` is the command line."""

from dimargin.cli import main

if __name__ == "__main__":
    main()
