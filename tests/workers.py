"""Work for processes beside the tests, which have to find it by its module."""

import os
import time

import torch


def where(item):
    """The item, who had it, and with how many threads."""
    time.sleep(0.1)
    return item, os.getpid(), torch.get_num_threads()
