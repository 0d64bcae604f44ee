"""The parameters of a request, refused as all its fields are; the table of them is shared with the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_common.protocol.agent import parameters
from pallas_common.protocol.agent.parameters import ParameterError
from pallas_worker.interface.errors import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pallas_common.protocol.agent.parameters import Parameters


def parse_parameters(given: Mapping[str, object]) -> Parameters | None:
    """The parameters of a request, by their names in `PARAMETERS` and `extra`; None where none is given.

    Raises:
        ArgumentError: one is unknown, malformed or out of its range; its name is `field`.
    """
    try:
        return parameters.parse_parameters(given)
    except ParameterError as error:
        refuse(error.field, error.complaint)
