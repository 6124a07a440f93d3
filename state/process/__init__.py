"""Functions that every process of Sandbur needs: clock, cancellation, crash points, identity,
installation.
"""
