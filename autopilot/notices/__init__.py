"""What people are informed of: which events, in which words, and how it reaches them."""
