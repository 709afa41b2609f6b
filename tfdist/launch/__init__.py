"""Start the tasks of a job and look after them."""
