"""Live users: events since the bundle was made, and what requests and batches need of them."""
