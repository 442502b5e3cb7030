"""Solutions from a policy without replacement: Gumbel noise, the trie, the beam, rounds, updates between rounds."""
