"""`python -m pallas_worker SPEC,LISTEN,LIFELINE,REPORT,RECORDS,OUTPUT,NOTICES`: one worker in its own interpreter.

The supervisor starts it so where an agent names its own interpreter; the numbers are inherited descriptors.
"""

from __future__ import annotations

import sys

from pallas_common.protocol.messages import Descriptors
from pallas_worker.process.run import run_worker


def main() -> None:
    """Run the worker that the descriptors on the command line belong to."""
    try:
        descriptors = Descriptors(*(int(number) for number in sys.argv[1].split(",")))
    except (IndexError, TypeError, ValueError):
        sys.exit("pallas_worker is started by the supervisor; use `pallas --agent NAME` to run one agent")
    run_worker(descriptors)


if __name__ == "__main__":
    main()
