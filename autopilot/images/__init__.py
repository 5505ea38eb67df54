"""What images say of themselves, read from their registries."""
