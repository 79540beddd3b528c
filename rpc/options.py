"""Bounds and times of the links."""

from dataclasses import dataclass

from rpc.framing import MAX_FRAME_BYTES


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options of all links of a node; times in seconds.

    Attributes:
        source_host: Address to dial from (`rpc.address`); None lets the system choose.
        send_buffer_bytes: Bytes per link that the kernel has not taken: a request that would pass this is refused
            unless it is urgent; one of more than an eighth counts as an eighth, so the last one may pass it. An inbound
            link whose peer leaves more replies than this unread is closed.
        kernel_unsent_bytes: How many unsent bytes the kernel takes per link, where it can be told: urgent requests
            wait for them.
        max_in_flight: Unanswered requests per link and direction. Urgent ones have a quarter more.
        max_frame_bytes: Largest frame accepted after the handshake.
        max_handshake_frame_bytes: Largest frame accepted before it is done.
        max_handshakes: Inbound connections that may be in their handshake; one more closes the oldest.
        connect_timeout: For the TCP connection.
        handshake_timeout: From the TCP connection to the last handshake frame.
        backoff_min: First wait before dialing again; doubles up to `backoff_max`, with jitter.
        backoff_max: Longest such wait.
        refused_backoff: Shortest wait after a refused handshake (up to twice as long, with jitter).
        sweep_interval: How often deadlines are checked: a request times out at most this much late.
        silence_limit: A link on which a request timed out and that was silent so long while a reply was due is
            closed and dialled again.
        close_timeout: How long what was written may still drain when a connection is closed in good order.
    """

    source_host: str | None = None
    send_buffer_bytes: int = 16 << 20
    kernel_unsent_bytes: int = 32 << 10
    max_in_flight: int = 1 << 16
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_handshake_frame_bytes: int = 8 << 10
    max_handshakes: int = 256
    connect_timeout: float = 5.0
    handshake_timeout: float = 5.0
    backoff_min: float = 0.05
    backoff_max: float = 1.0
    refused_backoff: float = 1.0
    sweep_interval: float = 0.1
    silence_limit: float = 3.0
    close_timeout: float = 1.0
