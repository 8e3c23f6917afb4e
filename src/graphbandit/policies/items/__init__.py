"""Policies for a fixed catalogue of items that are joined by a graph of their own.

| module | what is in it |
|---|---|
| `spectral_ucb` | `SpectralUCB`: optimism for payoffs that are smooth on the graph of items |
| `spectral_ts` | `SpectralTS`: Thompson sampling for the same model |
| `spectral_model` | `SpectralModel`: the ridge regression in the eigenbasis that both share |
| `spectrum` | the graph of items, its eigenvectors and its effective dimension |
| `catalogue` | which item of a fixed catalogue an offered arm is |
"""
