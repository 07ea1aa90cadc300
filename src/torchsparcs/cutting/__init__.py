"""What goes: neurons, channels, blocks and layers, with least-squares refits; ``extract``."""
