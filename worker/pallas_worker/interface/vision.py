"""Which images the served agent takes, and the words for those that it does not.

Knows image types and messages' images; must not know fast-agent, nor how a model is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pallas_common.protocol.agent.images import MIME_TYPES
from pallas_worker.interface.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pallas_worker.interface.images import Image


@dataclass(frozen=True, slots=True)
class Vision:
    """The types of images that reach a model, and why there are none."""

    types: frozenset[str]
    reason: str = "this agent's model has no vision"

    def refuse(self, images: Sequence[Image], where: str = "images") -> None:
        """Make sure that all of these can be sent to the model.

        Raises:
            ArgumentError: one cannot; fast-agent would drop it without a word.
        """
        if images and not self.types:
            raise ArgumentError(f"{where}: {self.reason}")
        for index, image in enumerate(images):
            if image.mime_type not in self.types:
                raise ArgumentError(
                    f"{where}[{index}]: this agent's model takes {self._listed}, not {image.mime_type}"
                )

    @property
    def _listed(self) -> str:
        return ", ".join(type_ for type_ in MIME_TYPES if type_ in self.types)


def common_vision(agent: str, readers: Iterable[tuple[str, frozenset[str] | None]]) -> Vision:
    """What all of an agent's readers take; `readers` are names with types, None for one that reads text only."""
    types = frozenset(MIME_TYPES)
    for name, taken in readers:
        if taken is None:
            planner = "this agent plans" if name == agent else f"its agent {name} plans"
            return Vision(frozenset(), f"{planner} by the text alone and takes no images")
        if not taken:
            whose = "this agent's model" if name == agent else f"the model of its agent {name}"
            return Vision(frozenset(), f"{whose} has no vision")
        types &= taken
    return Vision(types, "the models of its agents take no type of image in common")
