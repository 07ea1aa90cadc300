"""Who does long work (this process, several, a cluster), and what is done of it so far."""
