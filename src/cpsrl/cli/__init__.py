"""The `cpsrl` command."""
