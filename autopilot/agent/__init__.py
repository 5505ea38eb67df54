"""The program for rented machines (``shipped``), the one file that it is built into, and the text that starts it."""
