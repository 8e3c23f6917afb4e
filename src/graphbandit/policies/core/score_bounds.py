"""Bounds on the scores of blocks of arms, and scores of their arms in single precision with bounds on the error.

φ(s) = s (1 + g log⁺(R min(1, N) / (1 + N))), N = σ²/s, is the growing bonus of AdaptiveGraphUCB; R = 0 for other policies.
It grows up to s = σ²; from there to (R - 1) σ² it is concave, and may fall; then it is s. `peak` is where it stops growing.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import cholesky, dot
from .arm_blocks import BLOCK, ROUNDING, Blocks, Singles

SLACK = 1e-9  # of a score, relative: the policy and this module do not add in the same order
JITTER = 1e-12  # of L Lᵀ - M, relative


class Lens(NamedTuple):
    """What bounds are computed from, for one user."""

    theta: Singles  # (d,), of norm 1
    factor: Singles  # (d, d), L, of norm 1
    norm: float  # ‖θ‖
    size: float  # ‖L‖
    stretch: float  # at least √λ
    mean_error: float  # times ‖x‖: bound on the error of xᵀθ
    width_error: float  # times ‖x‖: bound on the error of √(xᵀMx)
    scale: float
    noise: float  # σ²
    rounds: float  # R
    growth: float  # g
    peak: float
    with_items: bool


@compiled
def grown(variance: float, noise: float, rounds: float, growth: float) -> float:
    """φ of a variance."""
    if not variance > 0.0:
        return 0.0
    seen = noise / variance
    return variance * (1.0 + growth * log(max(1.0, rounds * min(1.0, seen) / (1.0 + seen))))


@compiled
def peak_of(noise: float, rounds: float, growth: float) -> float:
    """Where φ stops growing: its derivative 1 + g log(R σ²/(s + σ²)) - g s/(s + σ²) is 0; infinite if it never does."""
    if rounds <= 2.0 or not noise > 0.0:
        return inf
    low, high = noise, (rounds - 1.0) * noise
    for _ in range(60):
        middle = 0.5 * (low + high)
        if 1.0 + growth * log(rounds * noise / (middle + noise)) > growth * middle / (middle + noise):
            low = middle
        else:
            high = middle
    return high


@compiled
def most_grown(least: float, most: float, noise: float, rounds: float, growth: float, peak: float) -> float:
    """The largest φ between two variances."""
    end = grown(most, noise, rounds, growth)
    if rounds <= 2.0 or most <= peak:
        return end
    return max(end, grown(max(least, peak), noise, rounds, growth))


@compiled
def least_grown(least: float, most: float, noise: float, rounds: float, growth: float) -> float:
    """The smallest φ between two variances."""
    value = min(grown(least, noise, rounds, growth), grown(most, noise, rounds, growth))
    dip = (rounds - 1.0) * noise
    return min(value, dip) if rounds > 2.0 and least < dip < most else value


@compiled
def largest_eigenvalue(metric: Floats) -> float:
    """At least the largest eigenvalue of a symmetric matrix: (tr M^2ᵖ)^(1/2ᵖ), at most d^(1/2ᵖ) times too large."""
    dim = metric.shape[0]
    squarings = 4 if dim <= 16 else 3 if dim <= 32 else 2
    power, square, total, exponent = metric.copy(), np.empty((dim, dim)), 0.0, 1.0
    scale = 1.0
    for step in range(squarings + 1):
        total = 0.0
        for i in range(dim):
            for j in range(dim):
                total += power[i, j] * power[i, j]
        total = sqrt(total)
        if not total > 0.0:
            return 0.0
        scale *= total**exponent
        if step == squarings:
            break
        exponent *= 0.5
        for i in range(dim):
            for j in range(dim):
                power[i, j] /= total
        for i in range(dim):
            for j in range(dim):
                square[i, j] = 0.0
            for m in range(dim):
                for j in range(dim):
                    square[i, j] += power[i, m] * power[m, j]
        power, square = square, power
    return scale * (1.0 + 1e-6)


@compiled
def focus(theta: Floats, metric: Floats, form: Floats) -> Lens:
    """What bounds need, from the outline of a user's scores."""
    dim = theta.shape[0]
    trace, norm = 0.0, sqrt(dot(theta, theta))
    for i in range(dim):
        trace += abs(metric[i, i])
        for j in range(i):
            metric[i, j] = metric[j, i] = 0.5 * (metric[i, j] + metric[j, i])
    jitter, factor = JITTER * (trace + norm * norm), np.zeros((dim, dim))
    residual, size = 0.0, 0.0
    if jitter > 0.0:
        cholesky(metric, jitter, factor)
    for i in range(dim):
        for j in range(i + 1):
            total = 0.0
            for m in range(j + 1):
                total += factor[i, m] * factor[j, m]
            residual += (1.0 if i == j else 2.0) * (total - metric[i, j]) ** 2
            size += factor[i, j] * factor[i, j]
    size = sqrt(size)
    apart = sqrt(residual) + 1e-14 * dim * trace
    unit_theta, unit_factor = np.zeros(dim, np.float32), np.zeros((dim, dim), np.float32)
    for i in range(dim):
        unit_theta[i] = np.float32(theta[i] / norm) if norm > 0.0 else np.float32(0.0)
        for j in range(i + 1):
            unit_factor[i, j] = np.float32(factor[i, j] / size) if size > 0.0 else np.float32(0.0)
    error = (dim + 8) * ROUNDING
    noise, rounds, growth = form[1], form[2], form[3]
    return Lens(
        unit_theta,
        unit_factor,
        norm,
        size,
        sqrt(largest_eigenvalue(metric) + apart),
        error * norm,
        error * size + sqrt(apart),
        form[0],
        noise,
        rounds,
        growth,
        peak_of(noise, rounds, growth),
        form[4] > 0.0,
    )


@compiled
def multiply_block(x: Singles, theta: Singles, mean: Singles) -> None:
    """xᵀθ of the arms of a block, side by side."""
    for a in range(BLOCK):
        mean[a] = x[0, a] * theta[0]
    for j in range(1, theta.shape[0]):
        here = theta[j]
        for a in range(BLOCK):
            mean[a] += x[j, a] * here


@compiled
def widths_of_block(x: Singles, factor: Singles, part: Singles, width: Singles) -> None:
    """‖Lᵀx‖² of the arms of a block, side by side; `part` is scratch."""
    dim = factor.shape[0]
    for a in range(BLOCK):
        width[a] = 0.0
    for j in range(dim):
        here = factor[j, j]
        for a in range(BLOCK):
            part[a] = x[j, a] * here
        for i in range(j + 1, dim):
            here = factor[i, j]
            for a in range(BLOCK):
                part[a] += x[i, a] * here
        for a in range(BLOCK):
            width[a] += part[a] * part[a]


@compiled
def bound_blocks(lens: Lens, blocks: Blocks, means: Floats, bonuses: Floats) -> None:
    """Write the largest mean and the largest bonus that an arm of each block could have."""
    mean, width, part = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for group in range((blocks.used[0] + BLOCK - 1) // BLOCK):
        multiply_block(blocks.centre[group], lens.theta, mean)
        widths_of_block(blocks.centre[group], lens.factor, part, width)
        for a in range(min(BLOCK, blocks.used[0] - group * BLOCK)):
            b = group * BLOCK + a
            if blocks.filled[b] == 0:
                means[b], bonuses[b] = -inf, 0.0
                continue
            r, length = blocks.radius[b], blocks.longest[b]
            effect, spread = (blocks.effect[b], blocks.spread[b]) if lens.with_items else (0.0, 0.0)
            upper = float(mean[a]) * lens.norm + r * lens.norm + lens.mean_error * (length + r) + effect
            side = sqrt(float(width[a])) * lens.size + r * lens.stretch + lens.width_error * (length + r)
            side = min(side, lens.stretch * length)
            variance = side * side + lens.noise * spread
            bonus = lens.scale * sqrt(most_grown(0.0, variance, lens.noise, lens.rounds, lens.growth, lens.peak))
            means[b], bonuses[b] = upper + SLACK * (abs(upper) + abs(effect)), bonus * (1.0 + SLACK)
