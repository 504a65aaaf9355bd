"""What the reports of all protocols share."""
