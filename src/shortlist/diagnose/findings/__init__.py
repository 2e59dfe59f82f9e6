"""What a diagnosis comes to, in sentences by fixed rules."""
