"""The mailbox: the objects through which daemon and agent speak, how they are named, written and read."""
