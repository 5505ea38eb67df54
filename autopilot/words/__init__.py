"""What answers say, in words for people: one vocabulary for the command line, the page and whoever else tells them."""
