"""Makes `handmade`, beside this file, importable from every folder of tests."""
