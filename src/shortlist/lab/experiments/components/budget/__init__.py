"""A budget of candidates split over nominators."""
