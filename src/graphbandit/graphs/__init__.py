"""Build a `UserGraph`: from data that you have, from features or behaviour of users, or at random.

| module | what is in it |
|---|---|
| `from_data` | from a matrix, pairs, a NetworkX graph, a file of edges |
| `formats` | from and to NetworkX, igraph, PyTorch Geometric and GraphML |
| `from_features` | `rbf` and `knn`: users with similar features are joined; the nearest users of every user |
| `from_behaviour` | `build`: from what users did, judged on what they did later |
| `generators` | Erdős–Rényi, Barabási–Albert, Watts–Strogatz; the controls `complete`, `empty` and `shuffled` |
| `spectral_clusters` | `partition`: clusters with few edges between them |

Parts of SciPy that only one function needs are imported inside it: together they would double the
time of `import graphbandit`.
"""

from __future__ import annotations

from .formats import from_edge_index, from_igraph, read_graphml, to_edge_index, to_igraph, to_networkx, write_graphml
from .from_behaviour import build
from .from_data import from_adjacency, from_edges, from_networkx, read_edges
from .from_features import knn, rbf
from .generators import Seed, barabasi_albert, complete, empty, erdos_renyi, shuffled, watts_strogatz
from .spectral_clusters import partition

__all__ = [
    "Seed",
    "barabasi_albert",
    "build",
    "complete",
    "empty",
    "erdos_renyi",
    "from_adjacency",
    "from_edge_index",
    "from_edges",
    "from_igraph",
    "from_networkx",
    "knn",
    "partition",
    "rbf",
    "read_edges",
    "read_graphml",
    "shuffled",
    "to_edge_index",
    "to_igraph",
    "to_networkx",
    "watts_strogatz",
    "write_graphml",
]


def __dir__() -> list[str]:
    return __all__
