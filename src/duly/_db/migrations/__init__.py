"""The history of duly's tables, run by Alembic: one version, one text per database."""
