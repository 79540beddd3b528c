"""What users meet. Everything but `broker` is a client: it reaches brokers through their public ports only.

* `version`         version of the installation.
* `config`          the broker's configuration: where it comes from and how it fits together.
* `config_options`  the table of options.
* `config_descriptor` how the configuration reaches the broker process.
* `harmless_signals` signals that end no broker while it starts.
* `counted`         how many of something there are, in words.
* `error_text`      why something failed, in words.
* `partition_health` what is wrong with a partition, in a word.
* `topic_names`     which names a topic may have.
* `suggestions`     names that somebody may have meant.
* `admin_client`    HTTP requests to a broker's admin port.
* `kafka`           Kafka clients.
* `cli`             the command `raftka`.
* `health`          rules that say what is wrong with a cluster; the doctor and the broker share them.
* `dev`             `raftka dev`: a cluster of processes on this machine.
* `check`           judges histories of clients: `raftka check`.
* `chaos`           runs clients while faults happen, and has them judged: `raftka chaos`.
* `monitoring`      metrics, alerts and dashboard as tables.
* `pipeline`        pipelines on Spark, the archive among them: `raftka pipeline`, `raftka archive`.
* `debug`           collects what helps to find a fault: `raftka debug bundle`.
* `deploy`          units, images and manifests: `raftka generate`.
* `story`           what `make run` tells.
* `story_clients`   the producers and the reader of the story.
* `health`          what is wrong, and the cure: rules without a broker's packages.
* `broker`          the broker process.
"""
