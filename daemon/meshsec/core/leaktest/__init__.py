"""What captures say of user data in the clear."""
