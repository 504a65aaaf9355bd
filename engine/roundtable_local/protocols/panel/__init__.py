"""The panel protocol (rules M-): proponent, skeptic and arbiter, one revision at most, then the user decides."""
