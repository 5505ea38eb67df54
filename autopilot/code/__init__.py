"""The user's code: which files of a directory are sent to the machines of a job."""
