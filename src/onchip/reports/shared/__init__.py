"""Parts that all reports share: pages, bars, progress lines, words for sizes."""
