"""The program that makes a virtual machine a place for an agent: its user data, and the one file that it fetches."""
