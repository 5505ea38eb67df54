"""The views of spend by job and by machine name the owner. Views are made again after each upgrade."""

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Nothing."""
