"""How the tables came to be what they are: run by alembic, one file for each change."""
