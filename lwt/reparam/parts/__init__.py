"""What the methods share: targets and their checks, and the base of methods that change each target on its own."""
