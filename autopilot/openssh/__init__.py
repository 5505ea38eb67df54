"""The system's ``ssh``: how it is called, and how one run of it is bounded."""
