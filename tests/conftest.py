"""What holds for every test: examples of hypothesis have no deadline, because nothing here asserts on elapsed time."""

from hypothesis import settings

settings.register_profile("raftka", deadline=None)
settings.load_profile("raftka")
