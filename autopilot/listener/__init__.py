"""What others on the network may connect to. It has no market key and no ledger; ticks go on without it."""
