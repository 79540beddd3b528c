"""What Kafka clients talk to: the listener, its connections, and one handler per API.

- server, connection: the listener; one connection's frames, order of answers and back-pressure
- handlers: one module per API, and the registry of what is served in which versions
- end_connection: how a handler closes a connection instead of answering
- request_context: what a handler may use
- request_memory, fetch_memory: what all requests, and all fetch responses, may hold at once
- fetch_sessions: incremental fetch sessions (KIP-227)
- key_checks: whether each record for a compacted topic has a key
- refused_batch: why a batch is not taken
- refused_batches: what an idempotent producer has sent behind a batch that was refused shares its fate
- read_positions: from where on a connection reads, and so which batches it has found whole
- answer: one answer on its way to its client
- client_progress: when a client that does nothing is disconnected
- closed_log: why connections were closed, in a bounded number of lines
- request_figures: what clients ask, how long it takes, with which errors it is answered
- topic_traffic: what they write and read, by topic
- response_pieces: responses as the kernel and a transport take them
- options: bounds and defaults of the listener
- described_configs: configurations as clients see them
- preferred_leaders: lets the first replica of a partition lead, or tells whether it could
- auto_topics: topics that exist because a client asked for them
- coordinators: what the coordinators of groups and of transactions have in common
- groups: classic consumer groups: the state machine, and their coordinator
- transactions: the state machine of a transactional id, and its coordinator
- error_mapping: our errors -> Kafka's error codes
- compatibility: writes the tables of docs/compatibility.md
- protocol: the wire codec: frames, messages, schema
"""
