"""Errors made on purpose, one at a time, in the code that guards money and checkpoints: the tests must notice each.

    python -m tools.mutants --shard 3/8     run a share; what is in the kept file already is not run again
    python -m tools.mutants --report        killed and survived by module, and each survivor with its reason
    python -m tools.mutants --only 1a2b3c   run one and keep nothing, to write the test that kills it
    python -m tools.mutants --listed tools/mutants/engine_and_store.txt --results FILE
                                            sixty drawn once of the engine and the store, with the tests of their rooms:
                                            whether a change of the tests guards less

What runs is a commit in a copy of its own: the checkout is never edited, and shards may run side by side.
"""
