"""Tools that look into any run: cost, spectra, head importance, feed-forward memories, measurements."""
