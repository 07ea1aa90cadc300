"""Networks inside somebody's model: found, replaced by spectral ones, their weights kept."""
