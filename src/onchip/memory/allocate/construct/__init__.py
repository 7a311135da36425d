"""Constructive packers: best fit, skyline, by size, by time, and a beam over layouts."""
