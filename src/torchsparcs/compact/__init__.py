"""What comes out: ordinary networks and chains in direct space, that know nothing of spectra."""
