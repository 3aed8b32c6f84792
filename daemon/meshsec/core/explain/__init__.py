"""What people and programs are shown: views, sentences, and what ``doctor`` finds."""
