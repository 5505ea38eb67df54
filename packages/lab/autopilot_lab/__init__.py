"""The laboratory: local markets, a ledger in memory, backtests, the demo. The product finds its commands by name."""
