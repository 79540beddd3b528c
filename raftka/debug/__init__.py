"""`raftka debug bundle`: one zip with what helps to find a fault of a cluster. It asks brokers by their public ports.

* `bundle`         which parts there are, in which order, each with its deadline.
* `bundle_file`    the zip: written beside its name, at most 100 MiB, with a manifest.
* `secret_mask`    hides secrets and the paths of secrets.
* `deadlines`      how long a part and all parts may take.
* `admin_parts`    what the admin port of a broker answers.
* `kafka_parts`    what Kafka requests tell: topics, configurations, groups.
* `machine_parts`  versions, kernel, limits, disks.
* `dev_parts`      logs and configuration of a dev cluster on this machine.
* `errors`         what can go wrong, in one line.
"""
