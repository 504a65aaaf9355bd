"""The confidence protocol: souls at a table, four rounds, a vote with a confidence to defend (rules O-)."""
