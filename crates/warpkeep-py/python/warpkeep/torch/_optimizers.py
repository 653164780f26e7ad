"""Optimizers of rows: each updates weights and state of the rows that a step touched, and of no others."""

from __future__ import annotations

from typing import Any

import torch


class Optimizer:
    """An optimizer: its name, how much state a row has, and the update. `lr` may change between steps."""

    name = ""

    def __init__(self, lr: float) -> None:
        if not lr > 0:
            raise ValueError(f"the learning rate is {lr}; give a number above 0")
        self.lr = lr

    def state_width(self, dim: int) -> int:
        """Numbers of state beside a row of `dim` weights."""
        raise NotImplementedError

    def update(self, weights: torch.Tensor, state: torch.Tensor, gradients: torch.Tensor, number: int) -> None:
        """Changes weights and state in place; `number` counts steps from 1."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """What the state of a stored row means; the learning rate is not part of it."""
        return {"name": self.name}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


class SGD(Optimizer):
    """Stochastic gradient descent, with the momentum and weight decay of `torch.optim.SGD`. State: a moment for each weight if there is momentum.

    Only the rows of a step are changed. Those of an id that it does not have keep weights and moments, where PyTorch's optimizer, which changes
    all rows in all steps, would go on moving and shrinking them.
    """

    name = "sgd"

    def __init__(self, lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(lr)
        if not 0 <= momentum < 1:
            raise ValueError(f"the momentum is {momentum}; give a number from 0 to below 1")
        if not weight_decay >= 0:
            raise ValueError(f"the weight decay is {weight_decay}; give a number from 0")
        if nesterov and momentum == 0:
            raise ValueError("nesterov needs momentum; give a number above 0")
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov

    def state_width(self, dim: int) -> int:
        return dim if self.momentum else 0

    def update(self, weights: torch.Tensor, state: torch.Tensor, gradients: torch.Tensor, number: int) -> None:
        if self.weight_decay:
            gradients = gradients.add(weights, alpha=self.weight_decay)
        if self.momentum:
            # New rows have zeros: their moment becomes the gradient, as PyTorch's first one does.
            state.mul_(self.momentum).add_(gradients)
            gradients = gradients.add(state, alpha=self.momentum) if self.nesterov else state
        weights.add_(gradients, alpha=-self.lr)

    def settings(self) -> dict[str, Any]:
        # Without momentum, what tables that were made before it say.
        return {"name": self.name, "momentum": self.momentum} if self.momentum else {"name": self.name}


class Adagrad(Optimizer):
    """Adagrad: the sum of squares of each weight's gradients."""

    name = "adagrad"

    def __init__(self, lr: float = 0.01, eps: float = 1e-10) -> None:
        super().__init__(lr)
        self.eps = eps

    def state_width(self, dim: int) -> int:
        return dim

    def update(self, weights: torch.Tensor, state: torch.Tensor, gradients: torch.Tensor, number: int) -> None:
        state.addcmul_(gradients, gradients)
        weights.addcdiv_(gradients, state.sqrt().add_(self.eps), value=-self.lr)


class RowwiseAdagrad(Optimizer):
    """Adagrad with one number for a row: the sum of the mean squares of its gradients."""

    name = "rowwise_adagrad"

    def __init__(self, lr: float = 0.01, eps: float = 1e-10) -> None:
        super().__init__(lr)
        self.eps = eps

    def state_width(self, dim: int) -> int:
        return 1

    def update(self, weights: torch.Tensor, state: torch.Tensor, gradients: torch.Tensor, number: int) -> None:
        # The sum of squares in one pass: the squares themselves are not stored.
        length = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
        state.addcmul_(length, length, value=1 / gradients.shape[1])
        # One factor for a row, so that each weight is multiplied, not divided.
        weights.addcmul_(gradients, state.sqrt().add_(self.eps).reciprocal_(), value=-self.lr)


class Adam(Optimizer):
    """Adam for rows: moments change when a row is touched, and are corrected by the number of the step, as in SparseAdam."""

    name = "adam"

    def __init__(self, lr: float = 0.001, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(lr)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas are {betas}; give numbers from 0 to below 1")
        self.betas, self.eps = betas, eps

    def state_width(self, dim: int) -> int:
        return 2 * dim

    def update(self, weights: torch.Tensor, state: torch.Tensor, gradients: torch.Tensor, number: int) -> None:
        first, second = state.chunk(2, dim=1)
        beta1, beta2 = self.betas
        first.mul_(beta1).add_(gradients, alpha=1 - beta1)
        second.mul_(beta2).addcmul_(gradients, gradients, value=1 - beta2)
        size = self.lr * (1 - beta2**number) ** 0.5 / (1 - beta1**number)
        weights.addcdiv_(first, second.sqrt().add_(self.eps), value=-size)

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "betas": list(self.betas)}
