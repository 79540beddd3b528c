"""One run from one seed, many runs on many processes, their report, and the search for the smallest failing run."""
