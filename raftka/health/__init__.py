"""What is wrong with a broker or a cluster, and the cure: pure rules that import no broker package.

* `refusals`  a handshake that one broker refused, in words.
"""
