"""What follows from the facts, for the checks of any vendor: pure functions of Facts and VendorFacts."""
