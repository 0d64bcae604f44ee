"""`python -m pallas_worker.process.own_interpreter DESCRIPTORS`: one worker in the interpreter that its agent names.

Started so by the supervisor; the descriptors are those of `Descriptors`, with commas between them.
"""

from __future__ import annotations

import sys

from pallas_common.protocol.link.process import taken_descriptors
from pallas_worker.process.run import run_worker


def main() -> None:
    """Run the worker that the descriptors on the command line belong to."""
    try:
        descriptors = taken_descriptors(sys.argv[1])
    except (IndexError, TypeError, ValueError):
        sys.exit("pallas_worker is started by the supervisor; use `pallas --agent NAME` to run one agent")
    run_worker(descriptors)


if __name__ == "__main__":
    main()
