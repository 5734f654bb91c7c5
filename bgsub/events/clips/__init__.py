"""Clips of the moments with motion: what precedes them, their files and the list of these."""
