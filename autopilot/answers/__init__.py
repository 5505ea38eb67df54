"""What crosses the API: the models of requests and answers, and how values are written into them."""
