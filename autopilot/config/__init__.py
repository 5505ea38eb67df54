"""What the operator sets (``settings``) and what a user asks for (``job_file``), both read from TOML."""
