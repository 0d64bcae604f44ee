"""`python -m pallas` is `pallas`."""

from pallas.server import main

if __name__ == "__main__":
    main()
