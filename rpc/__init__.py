"""Node-to-node frames: one link per direction per node pair (RFC 0001).

* `links`       Links: owner of all links of this node; what raft/ and cluster/ use.
* `methods`     Method: a number, its request and reply structs, its rules.
* `link`        OutgoingLink: dials one peer, matches replies to requests, sweeps deadlines.
* `server`      Server: accepts links and calls the handlers of requests.
* `connection`  Connection: one TCP connection, from the handshake to its end; both sides use it.
* `writer`      FrameWriter: the only place that writes to a transport.
* `handshake`   Handshake: who may talk to whom (no I/O).
* `framing`     frames out of bytes and back (no I/O).
* `codec`       cbor2 headers and msgspec bodies.
* `identity`    LinkIdentity, Peer, Address.
* `refusal_log` RefusalLog: one warning per reason and peer.
* `damage_log`  DamageLog: what arrived otherwise than it was sent, by peer.
* `options`, `errors`
"""
