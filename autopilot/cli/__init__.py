"""The command line: thin clients of the daemon, and the commands that start one.

Modules here import nothing heavy at their top, so that ``autopilot ps`` answers at once.
"""
