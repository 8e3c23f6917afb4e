"""Prior precisions K over users, as sparse matrices: which users are assumed to be similar, and how strongly."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..graph import UserGraph


def graphucb_prior(graph: UserGraph, *, alpha: float, ridge: float) -> tuple[sparse.csr_array, Floats]:
    """Return GraphUCB's K = ridge I + alpha L_sym, and the scales D^½ of its users (see `dense`)."""
    prior = ridge * sparse.eye_array(graph.n_users) + alpha * graph.laplacian("normalized")
    return sparse.csr_array(prior), np.sqrt(graph.positive_degrees)


def laplacian_prior(graph: UserGraph) -> sparse.csr_array:
    """Return I + L with the combinatorial Laplacian, for Gob.Lin and, times a constant, the Horde."""
    return sparse.csr_array(sparse.eye_array(graph.n_users) + graph.laplacian("combinatorial"))


def released_goblin_prior(graph: UserGraph) -> sparse.csr_array:
    """Return B Bᵀ with B = (I + R)^½: the penalty implied by the features of the released Gob.Lin."""
    from scipy.linalg import sqrtm

    root = np.real(sqrtm(np.eye(graph.n_users) + graph.laplacian("random-walk").toarray()))
    # It has the features φ̃ = (B⁻¹ ⊗ I) φ_i(x) and the penalty ‖w‖². A prediction is w·φ̃ = xᵀ(B⁻ᵀw)_i, so θ = B⁻ᵀw,
    # and ‖w‖² = ‖Bᵀθ‖². R is symmetric only where neighbours have equal degrees; elsewhere BᵀB differs.
    return sparse.csr_array(root @ root.T)
