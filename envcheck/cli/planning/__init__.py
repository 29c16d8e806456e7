"""The request of `envcheck plan`: its options, the job and the machine that it is about, and what is printed."""
