"""Where the code is that the targets run. Imports nothing: what is to be instrumented must not be imported before."""

PACKAGES = ("runtime", "model", "storage", "rpc", "raft", "cluster", "kafka_api", "raftka")
