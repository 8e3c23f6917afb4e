"""Whether the write-ahead log of SQLite is whole.

SQLite stops reading it at the first frame whose checksum does not fit, without a word: that is how it
finds the end of what was committed before the power failed. A flipped bit looks the same, and all
transactions after it are gone. The frames themselves tell how many those are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

HEADER, FRAME_HEADER = 32, 24  # bytes
MAGIC = 0x377F0682  # the last bit says in which order the bytes of a word are summed
Words = npt.NDArray[np.uint64]


def lost_transactions(database: Path) -> int:
    """Transactions in the write-ahead log of a database that SQLite will not read.

    One may be what a failure of the power has cut off, and nobody was told that it is durable. Two
    or more are damage: a transaction begins when the one before is on disk.
    """
    path = database.with_name(f"{database.name}-wal")
    content = path.read_bytes() if path.exists() else b""
    if len(content) < HEADER + FRAME_HEADER:
        return 0
    header = np.frombuffer(content[:HEADER], dtype=">u4")
    size = int(header[2]) if 512 <= header[2] <= 65536 else 4096
    n = (len(content) - HEADER) // (FRAME_HEADER + size)
    frames = np.frombuffer(content[HEADER : HEADER + n * (FRAME_HEADER + size)], dtype=np.uint8).reshape(n, -1)
    heads = frames[:, :FRAME_HEADER].copy().view(">u4").astype(np.uint64)
    order = ">u4" if header[0] & 1 else "<u4"
    summed = np.concatenate([frames[:, :8], frames[:, FRAME_HEADER:]], axis=1).view(order).astype(np.uint64)
    sums = heads[:, 4:]  # as they are stored
    before = np.concatenate([header[None, 6:].astype(np.uint64), sums[:-1]])
    own = np.frombuffer(content[:24], dtype=order)[None].astype(np.uint64)
    is_header_whole = header[0] | 1 == MAGIC | 1 and (checksums(own, np.zeros((1, 2), dtype=np.uint64)) == header[6:]).all()
    salts = header[4:6] if is_header_whole else heads[0, 2:4]
    is_current = (heads[:, 2:4] == salts).all(axis=1)
    is_whole = is_current & (checksums(summed, before) == sums).all(axis=1)
    first = n if is_whole.all() else int(np.argmin(is_whole))
    if not is_header_whole:
        first = 0
    return int((is_current & (heads[:, 1] != 0))[first:].sum())


def checksums(words: Words, before: Words) -> Words:
    """The two sums of SQLite after each row of words, from the two before it.

    A pair of words x, y takes the sums s, t to s + t + x and then t + (that) + y: a linear map, so
    that all rows together are one product of matrices, modulo 2**32.

    >>> checksums(np.array([[1, 2]], dtype=np.uint64), np.array([[10, 20]], dtype=np.uint64))
    array([[31, 53]], dtype=uint64)
    """
    n = words.shape[1] // 2
    modulus = 2**32
    factors = np.zeros((2 * n, 2), dtype=np.uint64)  # of each word, in each of the sums
    ahead = [[1, 0], [0, 1]]  # the map of all pairs that follow
    for pair in reversed(range(n)):
        (a, b), (c, d) = ahead
        factors[2 * pair], factors[2 * pair + 1] = ((a + b) % modulus, (c + d) % modulus), (b, d)
        ahead = [[(a + b) % modulus, (a + 2 * b) % modulus], [(c + d) % modulus, (c + 2 * d) % modulus]]
    whole = np.array(ahead, dtype=np.uint64)
    return (before @ whole.T + words @ factors) % modulus
