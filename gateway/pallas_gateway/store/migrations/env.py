"""What alembic runs: the migrations, on the connection and in the transaction that it is given.

Everything or nothing: SQLite, too, undoes changes of tables. Knows no database's address: `schema.py` brings the
connection.
"""

from __future__ import annotations

from alembic import context

from pallas_gateway.store.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
