"""Names in, names out: users, items and events as people have them, around a policy.

| module | what is in it |
|---|---|
| `named_policy` | `NamedPolicy`: users and arms by name, filters, decisions; the service is built on it too |
| `newcomers` | what to show to users whom nobody has seen |
| `requests` | what is asked for, as it arrives and resolved to rows |
| `errors` | `InvalidRequest` and `UnknownName`, which name the field that is wrong |
"""
