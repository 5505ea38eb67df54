"""The composition root: settings in, a running daemon out. Here alone markets, stores, clocks and engine are joined."""
