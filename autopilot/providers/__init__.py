"""Markets. Each lives in a package of its own, imports no other, and is found through its entry point."""
