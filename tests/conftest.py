"""One thread for all tests: their networks are small, and cores are often shared."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, and for subprocesses
