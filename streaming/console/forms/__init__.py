"""What users send with a page: which letters, their SQL, the views they keep, their plans."""
