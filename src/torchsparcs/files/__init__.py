"""Files as such: what is read is bounded, what is written is whole. Knows nothing of networks."""
