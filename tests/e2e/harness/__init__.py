"""What the end-to-end tests stand on: the real programs, clients, a scripted backend."""
