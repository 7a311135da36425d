"""Templates, styles and scripts of the pages.

Pages are one file each and open offline.
No Python lives here.
"""
