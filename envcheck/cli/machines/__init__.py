"""What commands do with machines: collect their facts, ask hosts, test cards, fix, and print the report."""
