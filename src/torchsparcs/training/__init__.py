"""One training of any module, from data and a config to a history, resumable bit for bit."""
