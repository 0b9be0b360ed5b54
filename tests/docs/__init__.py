"""The pages are run, and compared with the code that they describe."""
