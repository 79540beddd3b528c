"""What can go wrong in a run, apart from what is being looked for."""


class ChaosError(Exception):
    """One line for the person at the terminal: what is wrong and what to do."""
