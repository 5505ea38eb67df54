"""A duplicate of the SQL store in plain Python: the same answers and the same refusals, without a database.

For runs in virtual time. Nothing survives the process; what a kill of the daemon leaves does (``MemoryStore.kill``).
"""
