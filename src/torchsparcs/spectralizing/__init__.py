"""Replacement of networks inside any model by spectral ones, which may keep their weights."""
