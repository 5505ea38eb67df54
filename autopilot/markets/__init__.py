"""Which markets are installed, and what the product asks of each by its name."""
