# ruff: noqa: E402  (torch is an extra)
"""Routing: every token once to each of its experts, and back to its place."""

import pytest

torch = pytest.importorskip("torch")

from workloads.models.experts import MixtureOfExperts

NUM_EXPERTS, PER_TOKEN, DIM = 8, 2, 16


@pytest.fixture
def layer() -> MixtureOfExperts:
    torch.manual_seed(1)
    made = MixtureOfExperts(DIM, 24, NUM_EXPERTS, PER_TOKEN)
    for weight in made.parameters():
        torch.nn.init.normal_(weight)
    return made


def test_every_token_goes_once_to_each_of_its_experts(layer: MixtureOfExperts) -> None:
    x = torch.randn(3, 5, DIM)
    seen: list[tuple[torch.Tensor, list[int]]] = []

    def note(x_SD: torch.Tensor, counts_E: torch.Tensor) -> torch.Tensor:
        seen.append((x_SD, counts_E.tolist()))
        return x_SD

    layer.experts.compute = note
    y = layer(x)
    ((sent, counts),) = seen
    assert sum(counts) == len(sent) == 15 * PER_TOKEN
    assert torch.equal(
        sent.sort(dim=0).values, x.flatten(0, 1).repeat(PER_TOKEN, 1).sort(dim=0).values
    )
    torch.testing.assert_close(y, x)  # experts that do nothing, weighted by shares of one


@pytest.mark.parametrize("spoil", ["lost", "twice", "misplaced"])
def test_a_token_that_goes_astray_would_be_noticed(layer: MixtureOfExperts, spoil: str) -> None:
    x = torch.randn(3, 5, DIM)
    wrong = {
        "lost": lambda x_SD, _counts: x_SD * (torch.arange(len(x_SD)) > 0)[:, None],
        "twice": lambda x_SD, _counts: torch.cat((x_SD[:1], x_SD[:-1])),
        "misplaced": lambda x_SD, _counts: x_SD.roll(1, 0),
    }
    layer.experts.compute = wrong[spoil]
    with pytest.raises(AssertionError):
        torch.testing.assert_close(layer(x), x)


def test_it_is_the_weighted_sum_of_the_best(layer: MixtureOfExperts) -> None:
    x = torch.randn(4, DIM)
    scores = x @ layer.router.weight.T
    gate, up, down = layer.experts.gate_EDF, layer.experts.up_EDF, layer.experts.down_EFD
    expected = torch.zeros(4, DIM)
    for token in range(4):
        best = scores[token].argsort(descending=True)[:PER_TOKEN].tolist()
        shares = scores[token, best].softmax(0)
        for share, expert in zip(shares, best, strict=True):
            hidden = torch.nn.functional.silu(x[token] @ gate[expert]) * (x[token] @ up[expert])
            expected[token] += share * (hidden @ down[expert])
    torch.testing.assert_close(layer(x[None])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["autocast", "half tokens"])
def test_half_precision(layer: MixtureOfExperts, how: str) -> None:
    """As DDP has it, and as FSDP does, which leaves the experts' own weights in float32."""
    x = torch.randn(2, 8, DIM)
    if how == "half tokens":
        layer.router.to(torch.bfloat16)
        y = layer(x.to(torch.bfloat16))
        assert y.dtype is torch.bfloat16
    else:
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
    y.float().sum().backward()
    assert layer.experts.gate_EDF.grad is not None
    assert layer.experts.gate_EDF.grad.dtype is torch.float32
    assert y.isfinite().all()


def test_experts_that_nobody_is_sent_to_do_no_harm(layer: MixtureOfExperts) -> None:
    x = torch.randn(1, 1, DIM)
    assert layer(x).isfinite().all()
    assert layer.num_idle_params() == 6 * 3 * DIM * 24
