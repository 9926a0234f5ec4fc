"""`cpsrl watch`: one run, step by step, in the terminal or on a page."""

from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from cpsrl.cli.output import show
from cpsrl.experiments import Entry
from cpsrl.experiments.entry import make_agent
from cpsrl.mdp import TabularMDP

USUAL, RIVAL = "adaptive-psrl", "tsde"


def watch(
    mdp: TabularMDP,
    agent: str = USUAL,
    against: Annotated[str | None, arg(metavar="AGENT|none", help_behavior_hint="")] = None,
    steps: int = 5_000,
    seed: int = 0,
    run: int = 0,
    html: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None,
    options: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Watch one run: where the agent is, what it believes, when it resamples, what it loses.

    For example, `cpsrl watch riverswim --agent continuing-psrl --gamma 0.99`, or with `--html
    film.html` as a page with a time slider. The run is that of the experiments with the same seed,
    and another agent meets the same noise. Options of the agent are options of the command, those
    of the other one with `--against-` before them.

    Args:
        agent: the agent, one that `cpsrl list agents` shows.
        against: another agent on the same noise, or none; TSDE by default.
        steps: how many steps.
        seed: the root seed.
        run: the number of the run.
        html: write a page to this file in place of showing the run here.
        options: of the agents, below "agent" and "against".
    """
    from rich.console import Console

    from cpsrl.watching import Film, write_page
    from cpsrl.watching.terminal import can_be_live, ending, plain_lines, play

    rival = against or (USUAL if agent == RIVAL else RIVAL)
    chosen = {"agent": agent} | ({"against": rival} if rival != "none" else {})
    own = options or {}
    made = [make_agent(Entry(name, own.get(role, {}))) for role, name in chosen.items()]
    if html is not None and not html.parent.is_dir():
        raise ValueError(f"--html {html}: there is no folder {html.parent}")
    if html is not None and html.is_dir():
        raise ValueError(f"--html {html}: this is a folder; give a file, such as film.html")
    films = [Film(one, mdp, steps, seed, run) for one in made]
    if html is not None:
        for film in films:
            film.advance(steps)
        write_page(films, html)
        show(*ending(films), f"\nthe film is in {html}")
        return
    console = Console(highlight=False)
    if can_be_live(console):
        play(films, console)
    else:
        for line in plain_lines(films):
            show(line)
    show(*ending(films))
