"""Another deployment's store, made this one's, when a person says so: what there is, and the deed with its audit.

The gateway need not run: it is what refuses the store. Who calls this asks the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pallas_gateway.access.audit import Audit
from pallas_gateway.identity.principal import Principal
from pallas_gateway.store.database import do_in_store
from pallas_gateway.store.deployment import instance
from pallas_gateway.store.deployment.instance import Claimant

if TYPE_CHECKING:
    from pathlib import Path

    from pallas_gateway.store.deployment.instance import Owner

ACTION = "store.adopt"


@dataclass(frozen=True, slots=True)
class Adoption:
    """Of one store, by one deployment.

    The methods raise `StoreError` where the store, or the state directory, cannot be used.
    """

    store: str
    """As `open_store` takes it."""
    deployment: str
    directory: Path
    """The state directory."""

    @property
    def claimant(self) -> Claimant:
        """The deployment that takes over."""
        return Claimant(deployment=self.deployment, directory=self.directory)

    def owner(self) -> Owner | None:
        """The store's owner; None where it has none, so that whoever opens it first becomes it."""
        return do_in_store(self.store, instance.owner)

    def is_own(self, owner: Owner) -> bool:
        """Whether the store is the deployment's already."""
        return owner.id == self.claimant.id

    def carry_out(self, owner: Owner, person: str) -> None:
        """Take the store over.

        Args:
            owner: who has it until now.
            person: who says so: the name of a user of this machine.

        Raises:
            AuditUnavailableError: it cannot be written down; nothing is done then.
        """
        audit = Audit(self.directory)
        try:
            who = Principal(id=f"local:{person}", name=person, role="human")
            with audit.doing(
                who, ACTION, f"store/{owner.id} deployment/{owner.deployment} host/{owner.host}"
            ):
                do_in_store(self.store, partial(instance.adopt, claimant=self.claimant))
        finally:
            audit.close()
