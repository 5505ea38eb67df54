"""Standard-library Python that runs on a virtual machine, as root, beside the container with the agent in it."""
