"""What the application sees: which messages hosts deliver, and how often."""
