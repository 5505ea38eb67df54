"""vast.ai's HTTP API, as far as a renter of interruptible instances needs it, over the market model."""
