"""Texts that run in a job of Slurm, on a compute node: POSIX shell alone."""
