"""Logs: one line per event, as text or JSON, with secrets removed."""
