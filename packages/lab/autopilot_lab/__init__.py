"""The laboratory: local markets, backtests, the demo. The product imports none of it; commands load it by name."""
