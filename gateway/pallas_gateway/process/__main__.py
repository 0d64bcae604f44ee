"""`python -m pallas_gateway.process DESCRIPTORS`: one process of the gateway, as the supervisor starts it.

The descriptors are those of `Descriptors`, with commas between them.
"""

from __future__ import annotations

import sys

from pallas_common.protocol.link.process import taken_descriptors
from pallas_gateway.process.run import run_gateway


def main() -> None:
    """Run the gateway that the descriptors on the command line belong to."""
    try:
        descriptors = taken_descriptors(sys.argv[1])
    except (IndexError, TypeError, ValueError):
        sys.exit("pallas_gateway is started by the supervisor: write `gateway: {}` into agents.yaml")
    run_gateway(descriptors)


if __name__ == "__main__":
    main()
