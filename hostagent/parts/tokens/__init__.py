"""Parts of protocols whose token goes round a list of hosts: the ring, the lists that a majority agrees on, long values in pieces."""
