"""Values derived from the facts for the checks of all vendors: pure functions of Facts and VendorFacts."""
