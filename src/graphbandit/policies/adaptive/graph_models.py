"""The two solvers of AdaptiveGraphUCB's graph models behind one set of calls, chosen by the type of the state.

`look` views the neighbours once for all models that matter, `predict` serves the evidence, `surround` and `moments` the
decision; `learn` and `forget` keep up with the data. `joint.py` (exact) and `relaxed.py` (local) say what they do. The model of
slack s and strength k has the number s · strengths + k.
"""

from __future__ import annotations

from typing import Any

from ...compute.arrays import Floats
from ...compute.dispatch import generic
from ...compute.observations import Observations
from . import joint, relaxed
from .joint import Joint
from .relaxed import Relaxed, View

GraphModels = Joint | Relaxed


@generic
def look(solver: Any, seen: Observations, user: int, wanted: Floats, view: View) -> None:
    """Fill an empty view of the user's neighbours, for the models whose entry in `wanted` is positive."""


@generic
def predict(
    solver: Any,
    user: int,
    k: int,
    tau: float,
    rho: Floats,
    x: Floats,
    z: Floats,
    own: Floats,
    view: View,
    predicted: Floats,
    growth: Floats,
) -> None:
    """Write the expected reward of x and the growth 1 + xᵀ C x for every slack; z = V⁻¹x, own = V⁻¹b."""


@generic
def surround(solver: Any, tau: float, view: View, around: Floats) -> None:
    """Write what the covariances of all slacks share at one strength."""


@generic
def moments(
    solver: Any,
    user: int,
    model: int,
    tau: float,
    rho: float,
    inverse: Floats,
    own: Floats,
    view: View,
    around: Floats,
    theta: Floats,
    covariance: Floats,
) -> None:
    """Write mean and covariance / σ² of the user's vector; inverse = V⁻¹, own = V⁻¹b."""


@generic
def learn(solver: Any, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts; theta = V⁻¹(b + τ ρ Σ_j P_ij θ_j), with the new data."""


@generic
def forget(solver: Any, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`."""


for kernel, exact, local in (
    (look, joint.joint_look, relaxed.relaxed_look),
    (predict, joint.joint_predict, relaxed.relaxed_predict),
    (surround, joint.joint_surround, relaxed.relaxed_surround),
    (moments, joint.joint_moments, relaxed.relaxed_moments),
    (learn, joint.joint_learn, relaxed.relaxed_learn),
    (forget, joint.joint_forget, relaxed.relaxed_forget),
):
    kernel.register(Joint, exact)
    kernel.register(Relaxed, local)
