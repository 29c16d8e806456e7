"""`envcheck infer`: choose the chat program for trained weights, run it, and ask it questions."""
