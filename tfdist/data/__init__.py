"""Who reads which rows, in which order."""
