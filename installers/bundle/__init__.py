"""What makes a provisioning repeatable elsewhere: locks, bundles for machines without a network, models' weights."""
