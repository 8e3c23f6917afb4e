"""Files: atomic writes, and named arrays in one file. Nothing here knows about graphs or policies.

| module | what is in it |
|---|---|
| `atomic` | `atomic_file`, `write_text`, `write_bytes`: a file is replaced as a whole or not at all; `sync_folder` |
| `archive` | named arrays and a JSON header in one checksummed file: policies, results, snapshots |
"""
