"""Errors made on purpose, one at a time, in the code that guards money and checkpoints: the tests must notice each.

    python -m tools.mutants --shard 3/8     run a share; what is in the kept file already is not run again
    python -m tools.mutants --report        killed and survived by module, and each survivor with its reason
    python -m tools.mutants --only 1a2b3c   run one and keep nothing, to write the test that kills it

What runs is a commit in a copy of its own: the checkout is never edited, and shards may run side by side.
"""
