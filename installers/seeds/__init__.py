"""One host fetches an image from outside and passes it on to the others of its run (`--seed-node`)."""
