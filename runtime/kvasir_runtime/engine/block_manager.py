"""Who owns which block of the KV cache.

A block is free (no contents worth keeping), cached (unowned, but its contents may serve a later
request that begins alike) or used (owned by one or more sequences). Always
free + cached + used = total. Full blocks are found again by a hash chained over all tokens up to
their end; cached blocks are given up least recently used first. Completions of one prompt share its
blocks; the one that writes into a shared block first gets a copy of it.
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
        self._copies: dict[int, int] = {}  # destination: source

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
        # Blocks that are shared are not computed, so they have no scores of the prompt to give.
        if self.prefix_caching and seq.params.prompt_logprobs is None:
            self._hash_full_blocks(seq)
            for block_hash in seq.block_hashes[: (len(seq.token_ids) - 1) // self.block_size]:
                if (block := self._block_of.get(block_hash)) is None:
                    break
                found.append(block)
        return found

    def needed(self, seq: Sequence) -> int:
        """Return how many blocks more would be in use with a sequence that has none."""
        return self._added(seq, self.find_prefix(seq))

    def admit(self, seq: Sequence, count: int) -> int | None:
        """Give a sequence without blocks its cached prefix and room for `count` tokens after it.

        Returns the tokens that need not be computed; None, and nothing, unless all the tokens it
        has find room: a prompt that doesn't would push others out halfway through.
        """
        prefix = self.find_prefix(seq)
        if self._added(seq, prefix) > self.num_available:
            return None
        for block in prefix:
            self._own(block)
        seq.blocks.extend(prefix)
        seq.num_computed = len(prefix) * self.block_size
        seq.num_published = len(prefix)
        if self.prefix_caching:
            self.queries_total += len(seq.token_ids)
            self.hits_total += seq.num_computed
        self.grow(seq, min(seq.num_computed + count, seq.num_tokens))
        return seq.num_computed

    def fork(self, leader: Sequence, seq: Sequence, num_tokens: int) -> None:
        """Share the leader's blocks of the first `num_tokens`, all computed, with `seq`."""
        shared = leader.blocks[: self.blocks_for(num_tokens)]
        for block in shared:
            self._own(block)
        seq.blocks.extend(shared)
        seq.num_computed = num_tokens
        seq.num_published = min(leader.num_published, num_tokens // self.block_size)

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """Give a sequence room to write up to its first `num_tokens`; False, and nothing, if none.

        A block that it shares and is about to write into is replaced by a copy (`take_copies`).
        """
        missing = self.blocks_for(num_tokens) - len(seq.blocks)
        tail = seq.num_computed // self.block_size
        shared = tail < len(seq.blocks) and self._owners[seq.blocks[tail]] > 1
        if missing + shared > self.num_available:
            return False
        if shared:
            seq.blocks[tail] = self._copy(seq.blocks[tail])
        for _ in range(missing):
            seq.blocks.append(self._take())
        return True

    def take_copies(self) -> list[tuple[int, int]]:
        """Return the block copies (source, destination) that the next step makes first.

        No destination is another's source, so they may be made in any order.
        """
        copies = [(source, destination) for destination, source in self._copies.items()]
        self._copies.clear()
        return copies

    def publish(self, seq: Sequence) -> None:
        """Let others find the blocks that a step filled."""
        if not self.prefix_caching:
            return
        self._hash_full_blocks(seq)
        known = min(seq.num_computed, len(seq.token_ids), len(seq.blocks) * self.block_size)
        full = known // self.block_size
        for index in range(seq.num_published, full):
            block, block_hash = seq.blocks[index], seq.block_hashes[index]
            # Two sequences may fill equal blocks at once: the first keeps the name.
            if self._block_of.setdefault(block_hash, block) == block:
                self._hash_of[block] = block_hash
        seq.num_published = max(full, seq.num_published)

    def release(self, seq: Sequence) -> None:
        """Take all blocks of a sequence back; its last block is the first to be given up."""
        for block in reversed(seq.blocks):
            self._disown(block)
        seq.blocks.clear()
        seq.num_computed = seq.num_published = 0

    def _added(self, seq: Sequence, prefix: list[int]) -> int:
        """Return the blocks of a whole sequence, without those of its prefix that are in use."""
        return self.blocks_for(seq.num_tokens) - sum(1 for block in prefix if self._owners[block])

    def _own(self, block: int) -> None:
        self._num_used += not self._owners[block]
        self._owners[block] += 1
        self._cached.pop(block, None)

    def _disown(self, block: int) -> None:
        self._owners[block] -= 1
        if self._owners[block]:
            return
        self._num_used -= 1
        self._copies.pop(block, None)
        if block in self._hash_of:
            self._cached[block] = self._hash_of[block]
        else:
            self._free.append(block)

    def _copy(self, block: int) -> int:
        """Return a new block that the next step makes equal to `block`, and give that one up."""
        source = self._copies.get(block, block)
        copy = self._take()
        self._copies[copy] = source
        self._disown(block)
        return copy

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
