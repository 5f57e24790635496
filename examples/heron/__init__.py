"""The invented site `heron`: its hosts, jobs and what happened to them."""
