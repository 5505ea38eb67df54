"""Runs migrations on the connection that the program hands over, or for developers on ``-x url=sqlite:///path.db``."""

from alembic import context
from sqlalchemy import Connection, create_engine

from autopilot.store.schema import metadata
from autopilot.store.triggers import create_triggers
from autopilot.store.views import create_views, drop_views


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
    )
    with context.begin_transaction():
        drop_views(connection)
        context.run_migrations()
        create_views(connection)
        create_triggers(connection)


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).begin() as own:
        migrate(own)
