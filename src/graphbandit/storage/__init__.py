"""Files, at the bottom of everything.

| module | what is in it |
|---|---|
| `archive` | arrays with a header, a version and checksums in one `.npz` file |
"""
