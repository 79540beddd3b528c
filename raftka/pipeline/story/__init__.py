"""What `make run-pipeline` tells: a load, lost leaders, and what the pipelines have made of it.

* `__main__`   the story, from three brokers to a verdict.
* `orders`     the load: orders of which some are no JSON, with a history of all that its clients saw.
* `pipelines`  archive and telemetry, side by side in one session.
* `letters`    the dead letters against the log.
* `outage`     when a lost leader is to be seen.
* `proofs`     what must be so at the end: one line each, or an error.
* `output`     the folder of the run.
* `waiting`    waits with a deadline.
"""
