"""`UserGraph`: the graph of users, a validated and immutable value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .compute.arrays import Floats, Indices, Ints
from .validate import check, is_integer, one_of

LaplacianKind = Literal["random-walk", "combinatorial", "normalized"]
SYMMETRY_TOLERANCE = 1e-9  # relative to the weight: a kernel matrix computed in floats may be off by rounding


@dataclass(frozen=True, eq=False)
class UserGraph:
    """An undirected weighted graph whose nodes are the users 0 … n_users-1.

    Parameters
    ----------
    adjacency : (n, n) array or SciPy sparse matrix
        Symmetric, non-negative, finite weights with an empty diagonal. `W[i, j]` is the
        similarity of users i and j.
    ids : sequence of hashables, optional
        The name of each user, in row order. Defaults to the row numbers.

    Notes
    -----
    Isolated users and several components are allowed. For an isolated user the random-walk and the
    normalised Laplacian have `L_ii = 1` (the paper's footnote): its parameters are then estimated
    by ridge regression on its own data.

    Examples
    --------
    >>> graph = UserGraph([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph.n_users, graph.n_edges
    (3, 2)
    >>> graph.laplacian("random-walk").toarray()
    array([[ 1. , -1. ,  0. ],
           [-0.5,  1. , -0.5],
           [ 0. , -1. ,  1. ]])
    >>> graph.neighbours(1)
    array([0, 2], dtype=int32)
    """

    adjacency: Any = field(repr=False)
    ids: Sequence[Hashable] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", _valid_adjacency(self.adjacency))
        if not np.isfinite(self.degrees).all():
            raise ValueError("weights must add up to a finite degree, but they overflow.")
        if self.ids is not None:
            object.__setattr__(self, "ids", tuple(self.ids))
            if len(self.ids) != self.n_users:
                raise ValueError(f"ids has {len(self.ids)} names, but adjacency has {self.n_users} users.")
            if len(self.rows_by_id) != len(self.ids):
                raise ValueError("ids must be distinct, but at least one name occurs twice.")

    def __repr__(self) -> str:
        return f"UserGraph(n_users={self.n_users}, n_edges={self.n_edges})"

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, each counted once."""
        return int(self.adjacency.nnz // 2)

    @cached_property
    def degrees(self) -> Floats:
        """(n,) weighted degrees D_ii = Σ_j W_ij; zero for an isolated user."""
        with np.errstate(over="ignore"):  # the constructor reports an overflow
            degrees = np.asarray(self.adjacency.sum(axis=1), dtype=np.float64).ravel()
        degrees.flags.writeable = False
        return degrees

    @cached_property
    def components(self) -> Ints:
        """(n,) the connected component of each user, numbered from 0."""
        labels = sparse.csgraph.connected_components(self.adjacency, directed=False)[1].astype(np.int64)
        labels.flags.writeable = False
        return labels  # type: ignore[no-any-return]

    def laplacian(self, kind: LaplacianKind = "random-walk") -> sparse.csr_array:
        """Return the graph Laplacian as a sparse matrix.

        `random-walk`: R = I - D⁻¹W (not symmetric); `combinatorial`: D - W; `normalized`: I - D^-½
        W D^-½.
        """
        check("kind", kind, one_of(get_args(LaplacianKind)))
        if kind == "combinatorial":
            return sparse.csr_array(sparse.diags_array(self.degrees) - self.adjacency)
        rows = np.repeat(self.positive_degrees, np.diff(self.adjacency.indptr))
        # Quotients, not products with 1/D: the reciprocal of a tiny degree overflows.
        if kind == "random-walk":
            data = self.adjacency.data / rows
        else:
            data = self.adjacency.data / np.sqrt(rows) / np.sqrt(self.positive_degrees[self.adjacency.indices])
        scaled = sparse.csr_array((data, self.adjacency.indices, self.adjacency.indptr), shape=self.adjacency.shape)
        return sparse.csr_array(sparse.eye_array(self.n_users) - scaled)

    @cached_property
    def positive_degrees(self) -> Floats:
        """(n,) degrees with 1 in place of 0: the weight of a user's data in the degree-weighted loss."""
        degrees = np.where(self.degrees > 0, self.degrees, 1.0)
        degrees.flags.writeable = False
        return degrees

    def neighbours(self, user: int) -> Indices:
        """Return the users adjacent to `user`, in ascending order."""
        user = self.check_user(user)
        row: Indices = self.adjacency.indices[self.adjacency.indptr[user] : self.adjacency.indptr[user + 1]]
        return row.copy()

    def check_user(self, user: object) -> int:
        """Return the row of a user, or raise a ValueError; an integer is a row, anything else an id."""
        return check_user(user, self.n_users, self.rows_by_id)

    def index(self, user_id: Hashable) -> int:
        """Return the row of the user with this id."""
        if self.ids is None:
            return self.check_user(user_id)
        try:
            return self.rows_by_id[user_id]
        except (KeyError, TypeError):
            raise ValueError(f"no user has the id {user_id!r}.") from None

    @cached_property
    def rows_by_id(self) -> dict[Hashable, int]:
        """The row of each user by its id; empty if users have no ids."""
        try:
            return {name: row for row, name in enumerate(self.ids or ())}
        except TypeError as error:
            raise ValueError(f"ids must be hashable ({error}).") from None


def check_user(user: object, n_users: int, *rows_by_id: Mapping[Hashable, int]) -> int:
    """Return the row of a user, or raise a ValueError; an integer is a row, anything else an id."""
    if is_integer(user) and 0 <= user < n_users:  # type: ignore[operator]
        return int(user)  # type: ignore[call-overload,no-any-return]
    named = any(rows_by_id)
    if named and not is_integer(user) and isinstance(user, Hashable):
        for rows in rows_by_id:
            if user in rows:
                return rows[user]
        raise ValueError(f"no user has the id {user!r}.")
    raise ValueError(
        f"user must be an integer from 0 to {n_users - 1}, but it is {user!r}"
        + (" (an integer is a row; use graph.index(id) for ids that are integers)." if named else ".")
    )


def _valid_adjacency(adjacency: Any) -> sparse.csr_array:
    """Return a CSR copy with sorted indices and without stored zeros.

    Raise a ValueError that says what is wrong and where.
    """
    if not sparse.issparse(adjacency):
        adjacency = np.asarray(adjacency)
    if (not np.issubdtype(adjacency.dtype, np.number) and adjacency.dtype != bool) or np.iscomplexobj(adjacency):
        raise ValueError(f"adjacency must hold real numbers, but its type is {adjacency.dtype}.")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"adjacency must be a square matrix, but its shape is {adjacency.shape}.")
    if adjacency.shape[0] == 0:
        raise ValueError("adjacency is empty: a graph needs at least one user.")
    matrix = sparse.csr_array(adjacency, dtype=np.float64, copy=True)
    if matrix.nnz >= 2**31:
        raise ValueError(f"adjacency has {matrix.nnz} entries; at most 2³¹ - 1 are supported.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    _reject(matrix, ~np.isfinite(matrix.data), "weights must be finite")
    _reject(matrix, matrix.data < 0, "weights must not be negative")
    if matrix.nnz:
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        _reject(matrix, matrix.indices == rows, "a user must not be its own neighbour; clear the diagonal")
        gap = abs(matrix - matrix.T).tocoo()
        larger = matrix.maximum(matrix.T)[gap.coords] if gap.nnz else np.empty(0)
        wrong = gap.data > SYMMETRY_TOLERANCE * np.asarray(larger).ravel()
        if wrong.any():
            worst = int(wrong.argmax())
            i, j = int(gap.coords[0][worst]), int(gap.coords[1][worst])
            raise ValueError(
                f"adjacency must be symmetric, but W[{i}, {j}] = {matrix[i, j]:g} and W[{j}, {i}] = {matrix[j, i]:g}."
            )
        if gap.nnz:
            matrix = sparse.csr_array((matrix + matrix.T) / 2)
            matrix.sort_indices()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def _reject(matrix: sparse.csr_array, bad: npt.NDArray[np.bool_], rule: str) -> None:
    """Raise a ValueError that names the first bad entry, if there is one."""
    if bad.any():
        entry = int(bad.argmax())
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise ValueError(f"{rule}, but W[{row}, {matrix.indices[entry]}] = {matrix.data[entry]:g}.")
