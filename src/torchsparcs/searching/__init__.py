"""From data to the front of score against size: strategies, folds, the ladder, the result."""
