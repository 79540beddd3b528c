"""Errors of a bundle."""


class BundleError(Exception):
    """The bundle cannot be written: one line."""


class MissingPartError(Exception):
    """One part cannot be had: the manifest says why, and the other parts follow."""
