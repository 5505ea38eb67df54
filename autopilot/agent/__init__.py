"""The program that runs on rented machines (``agent.py``, one file by itself) and the text that puts it there."""
