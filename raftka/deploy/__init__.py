"""Files with which brokers are deployed, as text: what `raftka generate` prints.

* `systemd`       a unit for one broker of a machine.
* `containerfile` an image with Raftka and nothing else.
* `kubernetes`    manifests of a cluster.
* `checked`       what users may write into these files: paths, names, quantities.
"""
