"""Answers in words for people: one vocabulary for the command line, the page and all other clients."""
