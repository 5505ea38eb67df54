"""A core of bidding without tables, measured here beside what the product decides by: a guarantee, a bid, a reserve."""
