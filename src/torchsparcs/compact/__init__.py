"""Ordinary networks and chains in direct space, the results of a search; they know no spectra."""
