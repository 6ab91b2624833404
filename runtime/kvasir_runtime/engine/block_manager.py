"""Who owns which block of the KV cache.

A block is free (no contents worth keeping), cached (unowned, but its contents may serve a later
request that begins alike) or used (owned by one or more sequences). Always
free + cached + used = total. Full blocks are found again by a hash chained over all tokens up to
their end; cached blocks are given up least recently used first.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict, deque

from kvasir_runtime.engine.sequence import Sequence


class BlockManager:
    """Hands out blocks of `block_size` tokens, and takes them back."""

    def __init__(self, num_blocks: int, block_size: int, *, prefix_caching: bool = True) -> None:
        """Begin with every block free."""
        self.num_blocks, self.block_size = num_blocks, block_size
        self.prefix_caching = prefix_caching
        self.queries_total = 0  # tokens looked up in the prefix cache
        self.hits_total = 0  # of those, found
        self._free: deque[int] = deque(range(num_blocks))
        self._cached: OrderedDict[int, bytes] = OrderedDict()  # unowned, oldest first
        self._owners = [0] * num_blocks
        self._num_used = 0
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}

    @property
    def num_free(self) -> int:
        """Return the blocks without contents."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Return the unowned blocks whose contents are kept."""
        return len(self._cached)

    @property
    def num_available(self) -> int:
        """Return the blocks that can be handed out: free and cached."""
        return len(self._free) + len(self._cached)

    @property
    def num_used(self) -> int:
        """Return the blocks that sequences own."""
        return self._num_used

    def unowned_blocks(self) -> list[int]:
        """Return the ids of free blocks, whose contents nobody may read."""
        return list(self._free)

    def blocks_for(self, num_tokens: int) -> int:
        """Return how many blocks hold `num_tokens`."""
        return -(-num_tokens // self.block_size)

    def find_prefix(self, seq: Sequence) -> list[int]:
        """Return the blocks that already hold the beginning of a sequence; nothing changes hands.

        At least one token is left to compute, since the last one's scores are needed.
        """
        found: list[int] = []
        if self.prefix_caching:
            self._hash_full_blocks(seq)
            for block_hash in seq.block_hashes[: (len(seq.token_ids) - 1) // self.block_size]:
                if (block := self._block_of.get(block_hash)) is None:
                    break
                found.append(block)
        return found

    def admit(self, seq: Sequence, count: int) -> int | None:
        """Give a sequence without blocks its cached prefix and room for `count` tokens after it.

        Returns the tokens that need not be computed; None, and nothing, unless all the tokens it
        has find room: a prompt that doesn't would push others out halfway through.
        """
        prefix = self.find_prefix(seq)
        available = self.num_available - sum(1 for block in prefix if not self._owners[block])
        if self.blocks_for(len(seq.token_ids)) - len(prefix) > available:
            return None
        for block in prefix:
            self._own(block)
        seq.blocks.extend(prefix)
        seq.num_computed = len(prefix) * self.block_size
        seq.num_published = len(prefix)
        if self.prefix_caching:
            self.queries_total += len(seq.token_ids)
            self.hits_total += seq.num_computed
        self.grow(seq, min(seq.num_computed + count, len(seq.token_ids)))
        return seq.num_computed

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """Give a sequence the blocks for its first `num_tokens`; False, and nothing, if too few."""
        missing = self.blocks_for(num_tokens) - len(seq.blocks)
        if missing > self.num_available:
            return False
        for _ in range(missing):
            seq.blocks.append(self._take())
        return True

    def publish(self, seq: Sequence) -> None:
        """Let others find the blocks that a step filled."""
        if not self.prefix_caching:
            return
        self._hash_full_blocks(seq)
        full = seq.num_computed // self.block_size
        for index in range(seq.num_published, full):
            block, block_hash = seq.blocks[index], seq.block_hashes[index]
            # Two sequences may fill equal blocks at once: the first keeps the name.
            if self._block_of.setdefault(block_hash, block) == block:
                self._hash_of[block] = block_hash
        seq.num_published = max(full, seq.num_published)

    def release(self, seq: Sequence) -> None:
        """Take all blocks of a sequence back; its last block is the first to be given up."""
        for block in reversed(seq.blocks):
            self._owners[block] -= 1
            if self._owners[block]:
                continue
            self._num_used -= 1
            if block in self._hash_of:
                self._cached[block] = self._hash_of[block]
            else:
                self._free.append(block)
        seq.blocks.clear()
        seq.num_computed = seq.num_published = 0

    def _own(self, block: int) -> None:
        self._num_used += not self._owners[block]
        self._owners[block] += 1
        self._cached.pop(block, None)

    def _take(self) -> int:
        """Return an empty block, giving up the oldest cached contents where none is free."""
        if self._free:
            block = self._free.popleft()
        else:
            block, block_hash = self._cached.popitem(last=False)
            del self._hash_of[block], self._block_of[block_hash]
        self._own(block)
        return block

    def _hash_full_blocks(self, seq: Sequence) -> None:
        size = self.block_size
        while (len(seq.block_hashes) + 1) * size <= len(seq.token_ids):
            start = len(seq.block_hashes) * size
            parent = seq.block_hashes[-1] if seq.block_hashes else b""
            tokens = array("q", seq.token_ids[start : start + size]).tobytes()
            seq.block_hashes.append(hashlib.blake2b(parent + tokens, digest_size=16).digest())
