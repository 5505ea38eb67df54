"""What runs on a machine of one's own: standard library only, Python 3.8 or newer."""
