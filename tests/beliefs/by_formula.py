"""An independent belief in plain NumPy, written from the textbook formulas, slow and obvious."""

import numpy as np
from scipy import stats


class FormulaBelief:
    """Dirichlet rows and normal-gamma rewards, from a list of everything that was seen."""

    def __init__(self, alpha, mu0=1.0, n_mu=1.0, tau0=1.0, n_tau=1.0):
        self.alpha = np.asarray(alpha, dtype=float)
        self.prior = (mu0, n_mu, n_tau / 2, n_tau / 2 / tau0)
        self.seen = []

    def observe(self, state, action, reward, next_state):
        self.seen.append((state, action, reward, next_state))

    def row(self, state, action):
        """Return the Dirichlet parameters `(S,)` of a row."""
        successors = [s2 for s, a, _, s2 in self.seen if (s, a) == (state, action)]
        return self.alpha[state, action] + np.bincount(successors, minlength=len(self.alpha))

    def reward(self, state, action):
        """Return mu, lambda, alpha, beta of the normal-gamma posterior."""
        mu0, lambda0, alpha0, beta0 = self.prior
        x = np.array([r for s, a, r, _ in self.seen if (s, a) == (state, action)])
        n, m, v = len(x), (x.mean() if len(x) else 0.0), (x.var() if len(x) else 0.0)
        beta = beta0 + (n * v + lambda0 * n * (m - mu0) ** 2 / (lambda0 + n)) / 2
        return (lambda0 * mu0 + n * m) / (lambda0 + n), lambda0 + n, alpha0 + n / 2, beta

    def reward_marginal(self, state, action):
        """Return the distribution of the mean reward: a Student t."""
        mu, weight, alpha, beta = self.reward(state, action)
        return stats.t(2 * alpha, mu, np.sqrt(beta / (alpha * weight)))

    def sample(self, rng):
        """Draw transitions `(S, A, S)` and rewards `(S, A)`."""
        n_states, n_actions, _ = self.alpha.shape
        transitions = np.zeros(self.alpha.shape)
        rewards = np.zeros((n_states, n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                transitions[s, a] = rng.dirichlet(self.row(s, a))
                mu, weight, alpha, beta = self.reward(s, a)
                precision = rng.gamma(alpha, 1 / beta)
                rewards[s, a] = rng.normal(mu, 1 / np.sqrt(weight * precision))
        return transitions, rewards


def plan_by_value_iteration(transitions, rewards, gamma, tol=1e-6):
    """Return a gamma-discounted optimal policy `(S,)`."""
    value = np.zeros(len(rewards))
    while True:
        q = rewards + gamma * transitions @ value
        if np.abs(q.max(axis=1) - value).max() < tol:
            return q.argmax(axis=1)
        value = q.max(axis=1)
