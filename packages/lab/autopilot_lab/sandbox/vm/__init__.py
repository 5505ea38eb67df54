"""Virtual machines as local processes: a box whose first process boots user data, keeps units and shuts down.

``machines`` is what a market's emulator uses. ``init`` is the first process of a box, ``dockerd`` its container
runtime, ``shims`` the programs that the user data and the host program find there in place of the system's own.
"""
