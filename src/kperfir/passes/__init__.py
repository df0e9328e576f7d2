"""Steps on the program: find scopes, place records, lower them. One pass a file."""
