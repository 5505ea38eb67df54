"""A shell that does not forward SIGTERM around a training that saves whole files: sound."""

import subprocess
import sys

sys.exit(subprocess.call(["bash", "-c", f"{sys.executable} plain.py whole; echo ended"]))
