"""The supermajority protocol (rules A-): ten roles, theory before reality, a vote at two thirds."""
