"""Building blocks of all numeric packages. No module here imports a policy.

| module | what is in it |
|---|---|
| `arrays` | names for the array types: `Floats`, `Ints`, `Indices`, `Flags` |
| `compiler` | `compiled`: machine code for a Python function; only this module and the next three touch Numba |
| `kernel_cache` | machine code on disk, and the stamp that makes it stale |
| `states` | states go to compiled code as one pointer |
| `dispatch` | `generic`: one name for several kernels, chosen by the type of the first argument |
| `staleness` | digests of source files: when compiled code and kept runs are out of date |
| `linalg` | small dense linear algebra as plain loops: products, Cholesky, rank-one updates |
| `svd` | truncated singular value decomposition, in NumPy |
| `shifted` | solutions and inverses of A + τ I for several τ at once |
| `observations` | sufficient statistics of each user: Gram matrix, bias, visits |
| `growable` | arrays with a row for each user and spare capacity for more |
| `adjacency` | the edges of a graph for compiled code, in rows that can grow |

How a kernel is compiled, cached and made stale: `docs/explanation/compiler.md`.
"""
